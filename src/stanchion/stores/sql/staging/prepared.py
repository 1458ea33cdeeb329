"""Prepared jobs: many in one row of the stage, and stored without processing them singly.

Their ids are new, so that none can be stored already: the value of the publication keeps a repeat from storing them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Integer, String, delete, select

from stanchion.stores.records import calls
from stanchion.stores.records.prepared import PlainColumns, Prepared
from stanchion.stores.rules.prepared import prepared_by
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import CursorRunner, Runner
from stanchion.stores.sql.engine.schema import stage_prepared

_AT_ONCE = 16
"""Maximum rows of the stage in memory."""


class PreparedForm(Protocol):
    """The form in which a database takes many jobs together."""

    def rows(self, columns: PlainColumns) -> bytes:
        """Return jobs in this form."""

    def reading(self, run: CursorRunner) -> AbstractContextManager[None]:
        """Read jobs in this form within the block."""

    def insert(self, run: CursorRunner, prepared: Sequence[Prepared], moment: int) -> None:
        """Store jobs, due and enqueued at this moment."""


class PreparedStatements:
    """The statements about prepared jobs in the stage, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        columns = stage_prepared.c
        self.insert = dialect.insert_ignoring(
            stage_prepared, {column.name: param(column.name, column.type) for column in columns}
        )
        mine = (columns.write == param("of_write", String), columns.attempt == param("of_attempt", String))
        self.next_rows = (
            select(columns.queue, columns.jobs, columns.first, columns.rows)
            .where(*mine, columns.first > param("after", columns.first.type))
            .order_by(columns.first)
            .limit(param("most", Integer))
        )
        self.clear = delete(stage_prepared).where(*mine)


class PreparedJobs:
    """Stages prepared jobs, and stores them in a transaction of their publication."""

    def __init__(self, db: Database, form: PreparedForm) -> None:
        self._db, self._form = db, form
        self._statements = db.dialect.once(PreparedStatements)

    def prepare(self, columns: PlainColumns) -> list[Prepared]:
        """Return jobs in the form of this database, in portions for one row of the stage each."""
        return prepared_by(self._form.rows, columns)

    def stage(self, write: str, attempt: str, prepared: Sequence[Prepared]) -> None:
        """Stage prepared jobs; a repeat is harmless."""

        def work(run: CursorRunner, _again: bool) -> None:
            place = {"write": write, "attempt": attempt, "staged_at": self._db.clock(run)}
            run.change_each(self._statements.insert, [{**place, **one._asdict()} for one in prepared])

        if prepared:
            self._db.write(work, calls.seconds_for(sum(one.jobs for one in prepared)))

    def publish(self, run: CursorRunner, prepared: Sequence[Prepared], moment: int) -> None:
        """Store prepared jobs that were never staged."""
        if prepared:
            self._form.insert(run, prepared, moment)

    def publish_staged(self, run: CursorRunner, write: str, attempt: str, moment: int) -> int:
        """Store the prepared jobs of an attempt, and delete them from the stage; return their number."""
        found = 0
        for some in self._staged(run, write, attempt):
            self._form.insert(run, some, moment)
            found += sum(one.jobs for one in some)
        self.clear(run, write, attempt)
        return found

    def clear(self, run: Runner, write: str, attempt: str) -> None:
        """Delete the prepared jobs of an attempt from the stage."""
        run.change(self._statements.clear, {"of_write": write, "of_attempt": attempt})

    def _staged(self, run: CursorRunner, write: str, attempt: str) -> Iterator[list[Prepared]]:
        given = {"of_write": write, "of_attempt": attempt, "most": _AT_ONCE}
        after = "00000000-0000-0000-0000-000000000000"
        while True:
            with self._form.reading(run):
                rows = run.rows(self._statements.next_rows, {**given, "after": after})
            if not rows:
                return
            some = [Prepared(queue, jobs, str(first), bytes(rows)) for queue, jobs, first, rows in rows]
            yield some
            after = some[-1].first
