"""The rows of jobs, live and finished: read, written, removed, counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, Executable, String, cast, delete, insert, select, text, union_all, update

from stanchion.stores.records.jobs import JobRow, JobState, Pushed
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.sql.engine.columns import finished_row, live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Row, Runner
from stanchion.stores.sql.engine.schema import FIELDS, HISTORY_COLUMNS, LIVE_COLUMNS, history, jobs, tallies
from stanchion.stores.sql.queue_rows import QueueRows


class Step(NamedTuple):
    """What has happened to a job: as it was, as it is now (None: deleted), and the counter of its queue, if any."""

    before: JobRow
    after: JobRow | None
    counted: str | None = None


class JobStatements:
    """The statements about whole rows of jobs, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.values("ids", jobs.c.id.type)
        self.read = select(*live_row()).where(jobs.c.id.in_(ids))
        # One order for all who lock several jobs.
        self.lock: Executable = self.read.order_by(jobs.c.id).with_for_update()
        self.finished = select(*finished_row()).where(history.c.id.in_(ids))
        self.stored = union_all(
            *(
                select(cast(table.c.id, String(36)), table.c.run_at, table.c.enqueued_at).where(table.c.id.in_(ids))
                for table in (jobs, history)
            )
        )
        self.insert = dialect.insert_ignoring(jobs, {name: param(name, jobs.c[name].type) for name in LIVE_COLUMNS})
        self.keep = insert(history).values({name: param(name, history.c[name].type) for name in HISTORY_COLUMNS})
        self.rewrite: Executable = (
            update(jobs)
            .where(jobs.c.id == param("job", jobs.c.id.type))
            .values({name: param(f"new_{name}", jobs.c[name].type) for name in LIVE_COLUMNS if name != "id"})
        )
        self.remove = text(f"DELETE FROM stanchion_jobs WHERE {dialect.among('id', 'ids', 'uuid')}")
        self.forget: Executable = delete(history).where(history.c.id.in_(ids))
        self.tally = insert(tallies).values(
            queue=param("queue", String), what=param("what", String), n=param("n", BigInteger)
        )


class Jobs:
    """Reads and writes whole rows of jobs. What follows from a step of a job is its caller's to do."""

    def __init__(self, db: Database, queues: QueueRows, statements: type[JobStatements] = JobStatements) -> None:
        self._db, self._queues = db, queues
        self._statements = db.dialect.once(statements)

    # -- read

    def read(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return those of these jobs that are live."""
        return _by_id(run.rows(self._statements.read, {"ids": json.dumps(list(ids))}))

    def lock(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return those of these jobs that are live, locked until the end of the transaction."""
        return _by_id(run.rows(*self.asks_locked(ids)))

    def asks_locked(self, ids: Iterable[str]) -> Asked:
        """Return the question for these live jobs, which locks them, to be sent together with others."""
        return self._statements.lock, {"ids": json.dumps(sorted(ids))}

    def finished(self, run: Runner, ids: Iterable[str]) -> dict[str, JobRow]:
        """Return those of these jobs that are in history."""
        return _by_id(run.rows(self._statements.finished, {"ids": json.dumps(list(ids))}))

    def stored(self, run: Runner, ids: Iterable[str]) -> dict[str, Pushed]:
        """Return those of these jobs that are stored, live or finished, as a push of them is answered."""
        return {row[0]: Pushed(*row) for row in run.rows(self._statements.stored, {"ids": json.dumps(list(ids))})}

    # -- write

    def insert(self, run: Runner, rows: Sequence[JobRow]) -> int:
        """Insert live jobs, but for those whose id or key is taken; return how many there were."""
        return run.change_each(self._statements.insert, [live_values(row) for row in rows])

    def insert_one(self, run: Runner, row: JobRow) -> bool:
        """Insert a live job; False where its id or key is taken."""
        return run.change(self._statements.insert, live_values(row)) == 1

    def put(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write the rows that locked live jobs have become, and count the steps."""
        left = {row.queue for row in before if row.state == JobState.RUNNING}
        settings = self._queues.settings_of(run, left | {step.row.queue for step in after if step.final})
        run.woken.update(queue for queue in left if settings[queue].max_running is not None)  # a place is free
        run.ended.update(step.row.id for step in after if step.state(0).final)
        ended = [step.row for step in after if step.final]
        live = [step.row for step in after if not step.final]
        run.send_each(self._statements.keep, [kept(row) for row in ended if settings[row.queue].history_ttl > 0])
        self.remove(run, [row.id for row in ended])
        self._queues.insert(run, {row.queue for row in live} - {row.queue for row in before})
        self._queues.mark_letters(run, live)
        moved = zip(before, (step.row for step in after), strict=True)
        lanes = {row.queue for was, row in moved if row.lane and (row.queue, row.lane) != (was.queue, was.lane)}
        self._queues.make_laned(run, lanes)
        self.rewrite(run, live)
        self.tally(run, [(row.queue, step.counted) for row, step in zip(before, after, strict=True)])

    def rewrite(self, run: Runner, rows: Sequence[JobRow]) -> None:
        """Write live jobs as they are now."""
        values = [
            {"job": row.id} | {f"new_{name}": value for name, value in live_values(row).items() if name != "id"}
            for row in rows
        ]
        run.send_each(self._statements.rewrite, values)

    def remove(self, run: Runner, ids: Collection[str]) -> None:
        """Delete live jobs."""
        if ids:
            run.send(self._statements.remove, {"ids": self._db.dialect.listed(ids)})

    def take_back(self, run: Runner, id_: str) -> bool:
        """Delete a live job; tell whether it was there."""
        return run.change(self._statements.remove, {"ids": self._db.dialect.listed([id_])}) == 1

    def forget(self, run: Runner, ids: Collection[str]) -> int:
        """Delete finished jobs; return how many there were."""
        return run.change(self._statements.forget, {"ids": json.dumps(list(ids))}) if ids else 0

    # -- count

    def tally(self, run: Runner, counted: Iterable[tuple[str, str]], sign: int = 1) -> None:
        """Count what happened, as (queue, what); with -1, take it back."""
        self.count(run, Counter(counted), sign)

    def count(self, run: Runner, totals: Counter[tuple[str, str]], sign: int = 1) -> None:
        """Count what happened so often."""
        run.send_each(
            self._statements.tally,
            [{"queue": queue, "what": what, "n": sign * n} for (queue, what), n in sorted(totals.items())],
        )


def _by_id(rows: Iterable[Row]) -> dict[str, JobRow]:
    return {row[0]: JobRow(*row) for row in rows}


def kept(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a finished job."""
    return dict(zip(FIELDS, row, strict=True))


def live_values(row: JobRow) -> dict[str, object]:
    """Return the parameters that store a live job."""
    return dict(zip(LIVE_COLUMNS, row, strict=False))  # the last fields are those of finished jobs


def outline(id_: str, queue: str, order_key: str | None, limits: str | None, flow: str | None, held: int) -> JobRow:
    """Return what is to be known of a job for what follows its end; the parameters are HELD_COLUMNS."""
    return _ANY._replace(id=str(id_), queue=queue, order_key=order_key, limits=limits, flow=flow, held=held)


_ANY = JobRow("", "", 0, JobState.RUNNING.value, 0, 0, 0, "")


def in_order(rows: Iterable[Row]) -> list[JobRow]:
    """Return claimed rows as jobs, in the order in which they are handed out."""
    return sorted((JobRow(*row) for row in rows), key=lambda job: (-job.priority, job.run_at, job.id))


def is_id(text: str) -> bool:
    """Tell whether this can be an id: a database with a type for them refuses to compare anything else."""
    return _ID.fullmatch(text) is not None


_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
