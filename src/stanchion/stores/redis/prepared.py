"""Redis's form of prepared jobs: MessagePack, which a script unpacks without reading each byte.

Two items: an array of id, body, id, body, and so on; and the priority of all jobs, or an array of priorities. All
are texts. https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.redis.client.layout import BODY, FIELD, write_new_body
from stanchion.stores.redis.jobs import SCRIPT_JOBS_MAX, Jobs
from stanchion.stores.rules.prepared import data_of, joined, prepared_by, sizes_of

if TYPE_CHECKING:
    import pyarrow as pa

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
    parts: list[Any] = []
    for n, name in enumerate(BODY):
        text = given[name].cast(pa.string()).fill_null("") if name in given else fields[n].encode()
        parts += [text, FIELD.encode()]
    return joined(parts[:-1])
