"""Staged jobs in Redis, under the keys of their write, begun publications, and prepared jobs.

Publication: (1) a list names it as one that may begin, (2) it begins, with its value, (3) its jobs are pushed, (4) its
record is deleted, (5) the list drops it.

Prepared jobs are MessagePack, which a script unpacks without reading each byte. Two items: an array of id, body, id,
body, and so on; and the priority of all jobs, or an array of priorities. All are texts.
https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import STALE
from stanchion.stores.cas.staging import Begun, Piece, Staged, in_pieces, is_strict, job_in, job_text
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.records.values import ValueChange
from stanchion.stores.redis.client.layout import BODY, FIELD, write_new_body
from stanchion.stores.redis.client.rows import ROW
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.jobs import SCRIPT_JOBS_MAX, Jobs
from stanchion.stores.redis.push import Pushes
from stanchion.stores.redis.values import Values, value_in
from stanchion.stores.rules.prepared import data_of, joined, prepared_by, sizes_of
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED_MICROS = 3600 * SECOND
"""Microseconds after which a process does not resume between listing and beginning a publication."""
_PORTION = 1000
_FIELD = FIELD.encode()


class StageRows:
    """The primitives of `stores.cas` on staged jobs."""

    def __init__(
        self, server: Server, values: Values, pushes: Pushes, ids_reserved: Callable[[str, str], list[str]]
    ) -> None:
        self._server, self._keys, self._values = server, server.keys, values
        self.version, self.now = values.version, server.now
        self.refuse_duplicates, self.ids_reserved = pushes.refuse_duplicates, ids_reserved

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Store jobs under a write and an attempt."""
        if not jobs:
            return
        self._list_stage(write)
        for piece in in_pieces(jobs):
            strict = "1" if any(map(is_strict, piece)) else ""
            texts = [text for job in piece for text in (job.id, job_text(job))]
            self._server.all([self._server.script("stage", self._keys.stage(write), attempt, strict, *texts)])
        self._list_stage(write)  # again, because upkeep may have unlisted it meanwhile

    def _list_stage(self, write: str) -> None:
        self._server.command("ZADD", self._keys.own("stages"), self._server.now(), write)

    def staged(self, write: str) -> dict[str, Staged]:
        """Return what each attempt has staged, and keep it for another day."""
        (found,) = self._server.all([self._server.script("staged", self._keys.stage(write))])
        return {attempt.decode(): Staged(jobs, strict == b"1") for attempt, jobs, strict in chunks(found, 3)}

    def stage_prepared(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        """Store prepared jobs under a write and an attempt."""
        if not prepared:
            return
        self._list_stage(write)
        for queue, jobs, first, rows in prepared:
            text = b"".join((queue.encode(), _FIELD, str(jobs).encode(), _FIELD, rows))
            self._server.all(
                [self._server.script("stage_prepared", self._keys.stage(write), attempt, first, jobs, text)]
            )
        self._list_stage(write)

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        """Yield the pieces of an attempt."""
        for first, text in self._each(self._pieces(write, attempt)):
            yield Piece(first, [job_in(job) for job in text.decode().split(ROW)])

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        """Delete a pushed piece, and record that the publication continues."""
        self._drop(self._pieces(begun.write, attempt), piece.key, begun)

    def prepared(self, write: str, attempt: str) -> Iterator[Prepared]:
        """Yield the prepared jobs of an attempt."""
        for first, text in self._each(self._prepared(write, attempt)):
            queue, jobs, rows = text.split(_FIELD, 2)
            yield Prepared(queue.decode(), int(jobs), first, rows)

    def drop_prepared(self, begun: Begun, attempt: str, prepared: Prepared) -> None:
        """Delete pushed prepared jobs, and record that the publication continues."""
        self._drop(self._prepared(begun.write, attempt), prepared.first, begun)

    def _each(self, key: str) -> Iterator[tuple[str, bytes]]:
        for name in sorted(self._server.command("HKEYS", key)):
            text = self._server.command("HGET", key, name)
            if text is not None:  # else another process has pushed it meanwhile
                yield name.decode(), text

    def _drop(self, key: str, name: str, begun: Begun) -> None:
        self._server.command("HDEL", key, name)
        listed = _listed(begun.kind, begun.write)
        self._server.command("ZADD", self._keys.own("publishing"), "XX", self._server.now(), listed)

    def unstage(self, write: str) -> None:
        """Delete the staged jobs of a write."""
        self._server.all([self._server.script("unstage", self._keys.stage(write), "")])
        self._server.command("ZREM", self._keys.own("stages"), write)

    def _pieces(self, write: str, attempt: str) -> str:
        return f"{self._keys.stage(write)}pieces:{attempt}"

    def _prepared(self, write: str, attempt: str) -> str:
        return f"{self._keys.stage(write)}prepared:{attempt}"

    # -- publications

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        """Write a value by compare-and-set, with a record of the begun publication."""
        self._server.command("ZADD", self._keys.own("publishing"), self._server.now(), _listed(begun.kind, begun.write))
        text = json.dumps(begun)

        def work(again: bool) -> bool:
            key = self._begun_key(value.kind)
            done, known = self._server.run("begin", key, begun.write, text, value.name, value.version, value.text)
            # A repeat after a lost reply: the first try may have begun it.
            return bool(done) or (again and known.decode() == text)

        return self._server.call(work)

    def begun(self, before: int) -> Iterator[Begun]:
        """Return the publications that have begun and had no progress since this time."""
        now = self._server.now()
        for listed, listed_at in self._server.overdue("publishing", before + STALE, STALE).items():
            kind, _, write = listed.decode().partition(FIELD)
            begun = self._begun(kind, write)
            if begun is not None:
                yield begun
            elif listed_at <= now - _LISTED_MICROS:
                self._server.command("ZREM", self._keys.own("publishing"), listed)

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        """Return the publication of a write that has begun with this value."""
        return self._begun(value.kind, write)

    def _begun(self, kind: str, write: str) -> Begun | None:
        text = self._server.command("HGET", self._begun_key(kind) + "begun", write)
        if text is None:
            return None
        write, attempts, *rest = json.loads(text)
        return Begun(write, tuple(attempts), *rest)

    def delete_begun(self, begun: Begun) -> None:
        """Delete the record of a finished publication."""
        self._server.command("HDEL", self._begun_key(begun.kind) + "begun", begun.write)
        self._server.command("ZREM", self._keys.own("publishing"), _listed(begun.kind, begun.write))

    def _begun_key(self, kind: str) -> str:
        return f"{self._keys.own('publications')}:{{{self._values.key(kind)}}}:"

    # -- upkeep

    def forget_stages(self) -> None:
        """Delete stages unpublished for a day, and the values of writes published a month ago."""
        now = self._server.now()
        stages, old = self._keys.own("stages"), now - KEPT_STAGED
        publishing = self._server.command("ZRANGE", self._keys.own("publishing"), 0, -1)
        going_on = {listed.partition(_FIELD)[2] for listed in publishing}
        for write in self._server.command("ZRANGEBYSCORE", stages, "-inf", old):
            if write not in going_on:
                self._server.all(
                    [
                        self._server.script("unstage", self._keys.stage(write.decode()), old),
                        self._server.script("unlist", stages, old + 1, write),
                    ]
                )
        self._forget_writes(now - WRITES_KEPT)

    def _forget_writes(self, before: int) -> None:
        key, cursor = self._values.key(WRITE_KIND), b"0"
        while True:
            cursor, found = self._server.command("HSCAN", key, cursor, "COUNT", _PORTION)
            old = [name for name, stored in found.items() if published_at(value_in(name, stored)) <= before]
            self._server.all([Call(("HDEL", key, *part)) for part in chunks(old, _PORTION)])
            if int(cursor) == 0:
                return


def _listed(kind: str, write: str) -> str:
    return f"{kind}{FIELD}{write}"


_ID_TEXT = b"\xdb\x00\x00\x00\x24"
"""What precedes an id of 36 characters."""


class PreparedPushes:
    """Makes prepared jobs, and stores them."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def prepare(self, columns: PlainColumns) -> list[Prepared]:
        """Return jobs in the form of the script `push_prepared`, in portions for one call each."""
        return prepared_by(_packed, columns, SCRIPT_JOBS_MAX)

    def push_prepared(self, key: str, prepared: Prepared, run_at: int) -> None:
        """Store jobs, under an idempotency key."""
        places, queue = self._jobs.places, prepared.queue
        places.list_queue(queue)
        if self._jobs.script("push_prepared", queue, key, run_at, prepared.rows):
            places.list_queue(queue, again=True)


def _packed(columns: PlainColumns) -> bytes:
    priorities = columns.varying.get("priority")
    bodies = _bodies(columns)
    jobs = joined([_ID_TEXT, columns.ids, b"\xdb", sizes_of(bodies, big_endian=True), bodies])
    if priorities is None:
        ranks = _texts(str(columns.fixed.get("priority", 0)))
    else:
        ranks = _array(len(priorities)) + data_of(_packed_texts(priorities))
    return b"".join((b"\x92", _array(2 * len(columns.ids)), data_of(jobs), ranks))


def _array(items: int) -> bytes:
    return b"\xdd" + items.to_bytes(4, "big")


def _texts(text: str) -> bytes:
    return b"\xdb" + len(text).to_bytes(4, "big") + text.encode()


def _packed_texts(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    texts = column.cast(pa.string())
    return joined([b"\xdb", sizes_of(texts, big_endian=True), texts])


def _bodies(columns: PlainColumns) -> pa.Array:
    """Return the bodies of jobs: a template body, with the columns in their places."""
    import pyarrow as pa

    fields = write_new_body(NewJob("", "", "", **columns.fixed)).split(FIELD)
    given = {"payload": columns.payloads, **columns.varying}
    parts: list[object] = []
    for n, name in enumerate(BODY):
        text = given[name].cast(pa.string()).fill_null("") if name in given else fields[n].encode()
        parts += [text, FIELD.encode()]
    return joined(parts[:-1])
