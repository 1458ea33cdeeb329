"""MongoDB's form of prepared jobs: their documents in BSON, one after the other, still without their times.

https://bsonspec.org/spec.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import bson
from bson import Int64, ObjectId
from bson.raw_bson import RawBSONDocument

from stanchion.stores.mongo.client.documents import MAX_CONTENT, document_of, event
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.rules.prepared import data_of, in_memory, joined, prepared_by, sizes_of

if TYPE_CHECKING:
    import pyarrow as pa

_TIMES = ("run_at", "enqueued_at", "once")
"""The fields that are known when a job is stored."""

_COLUMNS = {"_id": "id", "rank": "priority"}
"""The columns of those fields that have another name in documents."""

_TEXT, _WHOLE, _NUMBER = b"\x02", b"\x12", b"\x01"


class PreparedPushes:
    """Makes prepared jobs, and stores them."""

    def __init__(self, server: Access, queues: QueueDocuments, signals: Announcer) -> None:
        self._server, self._queues, self._signals = server, queues, signals

    def prepare(self, columns: PlainColumns) -> list[Prepared] | None:
        """Return jobs as documents; None if one may have no room for later additions."""
        import pyarrow.compute as pc

        if pc.max(pc.binary_length(columns.payloads)).as_py() > MAX_CONTENT:
            return None
        return prepared_by(_documents, columns)

    def push_prepared(self, key: str, prepared: Prepared, run_at: int) -> None:
        """Store jobs; one stored within the hour is not stored again: it is found by its id, as in `Push.push_once`."""
        self._queues.make(prepared.queue)
        now = self._server.now()
        rows = prepared.rows
        for name, moment in {**dict.fromkeys(_TIMES, now), "run_at": run_at}.items():
            rows = rows.replace(_time(name, 0), _time(name, moment))
        documents = list(_each(rows))

        def work(on: Place, _again: bool) -> None:
            on.insert(on.jobs, documents)

        self._server.call(work, calls.seconds_for(prepared.jobs))
        self._signals.announce({prepared.queue})


def _each(rows: bytes) -> Iterator[RawBSONDocument]:
    start = 0
    while start < len(rows):
        end = start + int.from_bytes(rows[start : start + 4], "little")
        yield RawBSONDocument(rows[start:end])
        start = end


def _documents(columns: PlainColumns) -> bytes:
    """Return the documents of jobs: a template document, with the columns in their places."""
    job = NewJob("", columns.queue, "", **columns.fixed)
    any_job = {**document_of(created(job, 0)), **dict.fromkeys(_TIMES, Int64(0)), "version": 0}
    any_job["events"] = [event(ObjectId(), columns.queue, "pushed")]
    given = {"id": columns.ids, "payload": columns.payloads, **columns.varying}
    parts: list[object] = []
    for name in dict.fromkeys((*any_job, *columns.varying)):
        column = given.get(_COLUMNS.get(name, name))
        parts.append(_element(name, any_job[name]) if column is None else _elements(name, column))
    fields = joined(parts)
    return data_of(joined([sizes_of(fields, 5), fields, b"\0"]))


def _element(name: str, value: object) -> bytes:
    """Return a field of a document."""
    return bson.encode({name: value})[4:-1]


def _elements(name: str, column: pa.Array) -> pa.Array:
    """Return a field of each document; nothing for null."""
    import pyarrow as pa

    key = name.encode() + b"\0"
    if pa.types.is_floating(column.type):
        parts = [_NUMBER + key, in_memory(column)]
    elif pa.types.is_integer(column.type):
        parts = [_WHOLE + key, in_memory(column.cast(pa.int64()))]
    else:
        parts = [_TEXT + key, sizes_of(column, 1), column, b"\0"]
    return joined(parts).fill_null(b"")


def _time(name: str, moment: int) -> bytes:
    """Return the field of a time. No text has a null character in it, so that only this field is found."""
    return _element(name, Int64(moment))
