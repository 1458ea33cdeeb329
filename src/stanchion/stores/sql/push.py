"""New jobs: stored once, whoever repeats the call, and one for each key of a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sqlalchemy import String, select

from stanchion.errors import DuplicateKey
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.jobs import created, replaced
from stanchion.stores.sql.engine.columns import live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.jobs import Jobs, Step
from stanchion.stores.sql.queue_rows import QueueRows
from stanchion.stores.sql.slots import note_freed
from stanchion.stores.sql.transactions import Transactions

_PUSHED_AT_ONCE = 5000


class Pushes(Protocol):
    """Stores new jobs."""

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store them in a transaction of its own, or in the caller's."""

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        """Store them in a transaction that is open, in queues that are there; `again`: it is a repeat."""


class InsertsRows(Protocol):
    """Inserts rows of new jobs, and finds those that stand in their way."""

    def insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        """Insert the rows whose id and key are free; return them. `singly`: some of the ids may be taken."""

    def stored(self, run: Runner, job: NewJob) -> Pushed | None:
        """Return the answer to a job whose id is stored already; None where it is not."""

    def holder(self, run: Runner, queue: str, key: str | None) -> JobRow | None:
        """Return the live job that has a key, locked, if there is one."""


class InsertStatements:
    """The statement about the key of a job, for one dialect."""

    def __init__(self, _dialect: Dialect) -> None:
        of_key = jobs.c.queue == param("queue", String), jobs.c.key == param("job_key", String)
        self.holder = select(*live_row()).where(*of_key).with_for_update()


class Inserts:
    """Inserts jobs without a key together, and those with one each for itself."""

    def __init__(self, db: Database, jobs: Jobs, statements: type[InsertStatements] = InsertStatements) -> None:
        self._jobs = jobs
        self._statements = db.dialect.once(statements)

    def insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        together = [row for row in rows if row.key is None and not singly]
        self._jobs.insert(run, together)
        others = [row for row in rows if row.key is not None or singly]
        return together + [row for row in others if self._jobs.insert_one(run, row)]

    def stored(self, run: Runner, job: NewJob) -> Pushed | None:
        return self._jobs.stored(run, [job.id]).get(job.id)

    def holder(self, run: Runner, queue: str, key: str | None) -> JobRow | None:
        found = run.rows(self._statements.holder, {"queue": queue, "job_key": key})
        return JobRow(*found[0]) if found else None


class Push:
    """Stores new jobs in a transaction."""

    def __init__(
        self, db: Database, transactions: Transactions, jobs: Jobs, queues: QueueRows, inserts: InsertsRows
    ) -> None:
        self._db, self._transactions = db, transactions
        self._jobs, self._queues, self._inserts = jobs, queues, inserts

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        return push_within(self._transactions, jobs, tx, self.push_in)

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        if self._db.dialect.single_writer:
            # They were made, but where the connection has just opened another file, which may have none of them.
            self._queues.make_in(run, {job.queue for job in jobs})
        self._queues.make_laned(run, {job.queue for job in jobs if job.lane})
        now = self._db.clock(run)
        results = self._jobs.stored(run, [job.id for job in jobs])  # this push is a repeat
        rows = [created(job, now) for job in jobs if job.id not in results]
        inserted = self._inserts.insert(run, list({row.id: row for row in rows}.values()), singly=again)
        results |= {row.id: Pushed(row.id, row.run_at, row.enqueued_at) for row in inserted}
        self._jobs.tally(run, [(row.queue, "pushed") for row in inserted])
        for job in jobs:
            if job.id not in results:
                results[job.id] = self.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]

    def met(self, run: Runner, job: NewJob, row: JobRow) -> Pushed:
        """Return what becomes of a job whose id or key is there already."""
        if (known := self._inserts.stored(run, job)) is not None:
            return known
        holder = self._inserts.holder(run, job.queue, job.key)
        if holder is None:  # it has just finished
            if self._inserts.insert(run, [row], singly=True):
                self._jobs.tally(run, [(row.queue, "pushed")])
                return Pushed(row.id, row.run_at, row.enqueued_at)
            return self.met(run, job, row)
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.id)
        if job.on_duplicate == "replace" and (renewed := replaced(holder, job, row.enqueued_at)) is not None:
            self._jobs.rewrite(run, [renewed])
            note_freed(run, [Step(holder, renewed)])
            holder = renewed
        return Pushed(holder.id, holder.run_at, holder.enqueued_at, duplicate=True)


def push_within(
    transactions: Transactions,
    jobs: Sequence[NewJob],
    tx: Any,
    push_in: Callable[..., list[Pushed]],
    *,
    guarded: bool = False,
) -> list[Pushed]:
    """Store jobs by `push_in` in a transaction, the caller's if there is one; `guarded`: see `joined`."""
    if not jobs:
        return []
    queues = {job.queue for job in jobs}

    def work(run: Runner, again: bool) -> list[Pushed]:
        run.woken |= queues
        return push_in(run, jobs, again=again)

    return transactions.enter(queues, tx, work, guarded=guarded)


def push_all(push: Pushes, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> None:
    """Store jobs in a transaction that is open, however many, in queues that are there."""
    for start in range(0, len(jobs), _PUSHED_AT_ONCE):
        push.push_in(run, jobs[start : start + _PUSHED_AT_ONCE], again=again)
