"""What is staged in Redis, under keys of its write, and what is in hand of those who read elsewhere, by the token."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from stanchion.stores.cas.mixins.jobs import Seen
from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.cas.mixins.staging import Begun, Piece, Staged, in_pieces, is_strict, job_in, job_text
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.redis.client.rows import FIELD, ROW
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import RedisBase, portions
from stanchion.stores.redis.values import value_in
from stanchion.stores.rules.claims import holds
from stanchion.stores.rules.staging import KEPT_STAGED, WRITE_KIND, WRITES_KEPT, published_at

_NOTED = 3600 * SECOND
"""For so long nobody holds back between noting that a publication may begin and its beginning."""
_LISTED = 1000


class Staging(RedisBase):
    """Jobs in hand and jobs laid aside."""

    # -- in hand

    def ids_in_hand(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, in their order."""
        return self._held(queue, token, "")

    def reserved(self, queue: str, token: str) -> int:
        return len(self._held(queue, token, "1"))

    def _held(self, queue: str, token: str, listed: str) -> list[str]:
        return sorted(job_id.decode() for job_id in self.script("held", queue, token, listed))

    def in_hand(self, queue: str, token: str, first: str | None = None, last: str | None = None) -> list[JobRow]:
        """Return the running jobs under a token, with ids from `first` to `last` (None: no bound), by their ids."""
        ids = [
            job_id
            for job_id in self.ids_in_hand(queue, token)
            if (first is None or job_id >= first) and (last is None or job_id <= last)
        ]
        seen: dict[str, Seen] = {}
        self.look_in(queue, ids, seen)
        now = self.now()
        rows = (seen[job_id].row for job_id in ids if job_id in seen)
        return [in_hand(row) for row in rows if holds(row, token, now)]

    # -- staged

    def stage(self, write: str, attempt: str, jobs: Sequence[NewJob]) -> None:
        """Lay jobs aside under a write and an attempt."""
        if not jobs:
            return
        self._list_stage(write)
        for piece in in_pieces(jobs):
            strict = "1" if any(map(is_strict, piece)) else ""
            texts = [text for job in piece for text in (job.id, job_text(job))]
            self.server.all([self.server.script("stage", self.stage_key(write), attempt, strict, *texts)])
        self._list_stage(write)  # again, as somebody may have forgotten it meanwhile

    def _list_stage(self, write: str) -> None:
        self.server.command("ZADD", self.own_key("stages"), self.now(), write)

    def staged(self, write: str) -> dict[str, Staged]:
        (found,) = self.server.all([self.server.script("staged", self.stage_key(write))])
        return {attempt.decode(): Staged(jobs, strict == b"1") for attempt, jobs, strict in portions(found, 3)}

    def pieces(self, write: str, attempt: str) -> Iterator[Piece]:
        key = self._pieces(write, attempt)
        for mark in sorted(self.server.command("HKEYS", key)):
            text = self.server.command("HGET", key, mark)
            if text is not None:  # otherwise another has pushed it meanwhile
                yield Piece(mark.decode(), [job_in(job) for job in text.decode().split(ROW)])

    def drop_piece(self, begun: Begun, attempt: str, piece: Piece) -> None:
        self.server.command("HDEL", self._pieces(begun.write, attempt), piece.mark)
        self.server.command("ZADD", self.own_key("publishing"), "XX", self.now(), _listed(begun.kind, begun.write))

    def unstage(self, write: str) -> None:
        """Forget what is staged under a write."""
        self.server.all([self.server.script("unstage", self.stage_key(write), "")])
        self.server.command("ZREM", self.own_key("stages"), write)

    def _pieces(self, write: str, attempt: str) -> str:
        return f"{self.stage_key(write)}pieces:{attempt}"

    # -- versioned values

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        """Return the values of a kind, by name: all of them, or those of these names that there are."""
        return self._values.values(kind, names)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        """Write, or with None delete, a value whose version is still the given one; 0: it is absent."""
        return self._values.compare_and_set(kind, name, text, version)

    # -- publications: (1) noted, (2) begun, (3) what follows, (4) no longer begun, (5) struck off

    def value_version(self, kind: str, name: str) -> int:
        return self._values.version(kind, name)

    def begin(self, begun: Begun, value: ValueChange) -> bool:
        self.server.command("ZADD", self.own_key("publishing"), self.now(), _listed(begun.kind, begun.write))
        text = json.dumps(begun)

        def work(again: bool) -> bool:
            key = self._begun_key(value.kind)
            done, known = self.server.run("begin", key, begun.write, text, value.name, value.version, value.text)
            # A repeat after a lost answer: it has begun by the first try.
            return bool(done) or (again and known.decode() == text)

        return self.server.call(work)

    def begun(self, before: int) -> Iterator[Begun]:
        publishing, now = self.own_key("publishing"), self.now()
        for listed, noted_at in self.server.command("ZRANGEBYSCORE", publishing, "-inf", f"({before}", "WITHSCORES"):
            kind, _, write = listed.decode().partition(FIELD)
            begun = self._begun(kind, write)
            if begun is not None:
                yield begun
            elif noted_at <= now - _NOTED:
                self.server.command("ZREM", publishing, listed)

    def begun_with(self, value: ValueChange, write: str) -> Begun | None:
        return self._begun(value.kind, write)

    def _begun(self, kind: str, write: str) -> Begun | None:
        text = self.server.command("HGET", self._begun_key(kind) + "begun", write)
        if text is None:  # a process of an earlier release may have begun it, under a key without the prefix
            text = self.server.if_permitted("HGET", self._earlier_key(kind), write)
        if text is None:
            return None
        write, attempts, *rest = json.loads(text)
        return Begun(write, tuple(attempts), *rest)

    def strike_off_begun(self, begun: Begun) -> None:
        self.server.command("HDEL", self._begun_key(begun.kind) + "begun", begun.write)
        self.server.if_permitted("HDEL", self._earlier_key(begun.kind), begun.write)
        self.server.command("ZREM", self.own_key("publishing"), _listed(begun.kind, begun.write))

    def _begun_key(self, kind: str) -> str:
        return f"{self.own_key('publications')}:{{{self._values.key(kind)}}}:"

    def _earlier_key(self, kind: str) -> str:
        return f"{{{self._values.key(kind)}}}:begun"

    # -- upkeep

    def forget_stages(self) -> None:
        """Forget what was staged a day ago and not published, and that writes were published a month ago."""
        now = self.now()
        stages, old = self.own_key("stages"), now - KEPT_STAGED
        going_on = {listed.partition(FIELD.encode())[2] for listed in self._publishing()}
        for write in self.server.command("ZRANGEBYSCORE", stages, "-inf", old):
            if write not in going_on:
                self.server.all(
                    [
                        self.server.script("unstage", self.stage_key(write.decode()), old),
                        self.server.script("unlist", stages, old + 1, write),
                    ]
                )
        self._forget_writes(now - WRITES_KEPT)

    def _publishing(self) -> list[bytes]:
        return list(self.server.command("ZRANGE", self.own_key("publishing"), 0, -1))

    def _forget_writes(self, before: int) -> None:
        key, cursor = self._values.key(WRITE_KIND), b"0"
        while True:
            cursor, found = self.server.command("HSCAN", key, cursor, "COUNT", _LISTED)
            old = [name for name, stored in found.items() if published_at(value_in(name, stored)) <= before]
            self.server.all([Call(("HDEL", key, *part)) for part in portions(old, _LISTED)])
            if int(cursor) == 0:
                return


def _listed(kind: str, write: str) -> str:
    return f"{kind}{FIELD}{write}"
