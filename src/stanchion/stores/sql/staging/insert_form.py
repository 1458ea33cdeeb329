"""The form of prepared jobs for a database without a copy from the client: Arrow, inserted many at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import repeat

from sqlalchemy import insert

from stanchion.stores.records.jobs import QUEUED, UNLANED, NewJob
from stanchion.stores.records.prepared import SHARED_FIELDS, PlainColumns, Prepared
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import CursorRunner, Runner
from stanchion.stores.sql.engine.schema import jobs

_COLUMNS = ("id", "queue", "lane", "state", "rank", "run_at", "enqueued_at", "payload", *SHARED_FIELDS)
_FIXED = b"fixed"
"""The key of the values of all jobs, in the metadata of the schema."""


class InsertStatement:
    """The statement that stores prepared jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.insert = insert(jobs).values({name: param(name, jobs.c[name].type) for name in _COLUMNS})


class InsertForm:
    """Prepared jobs as a stream of Arrow, with a column for each field that varies."""

    def __init__(self, db: Database) -> None:
        self._insert = db.dialect.once(InsertStatement).insert

    def rows(self, columns: PlainColumns) -> bytes:
        """Return these jobs in this form."""
        import pyarrow as pa

        varying = {"id": columns.ids, "payload": columns.payloads, **columns.varying}
        batch = pa.record_batch(varying).replace_schema_metadata({_FIXED: json.dumps(dict(columns.fixed))})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return bytes(sink.getvalue())

    def reading(self, run: Runner) -> AbstractContextManager[None]:
        """Read jobs in this form within the block: as anything else."""
        return nullcontext()

    def insert(self, run: CursorRunner, prepared: Sequence[Prepared], moment: int) -> None:
        """Store jobs, due and enqueued at this moment."""
        import pyarrow as pa

        new = {"lane": UNLANED, "state": QUEUED, "run_at": moment, "enqueued_at": moment}
        defaults = {name: NewJob._field_defaults[name] for name in SHARED_FIELDS}
        for one in prepared:
            with pa.ipc.open_stream(one.rows) as stream:
                fixed = {**new, **defaults, **json.loads(stream.schema.metadata[_FIXED]), "queue": one.queue}
                given = stream.read_next_batch().to_pydict()
            columns = {**{name: repeat(value) for name, value in fixed.items()}, **given}
            run.change_columns(self._insert, {**columns, "rank": columns["priority"]})
