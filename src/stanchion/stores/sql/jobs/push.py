"""Push: a job is stored once, however often the call is repeated, and once per key of a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Protocol

from sqlalchemy import String, select

from stanchion.errors import DuplicateKey
from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob, Pushed
from stanchion.stores.rules.lifecycle.jobs import created, replaced
from stanchion.stores.sql.engine.columns import live_row, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.jobs.held_keys import HeldKeys
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.jobs import Jobs, Step
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.slots import record_freed
from stanchion.stores.sql.rows.transactions import Transactions

_PUSHED_AT_ONCE = 5000
_DEAD_FROM, _FINISHED_AT, _TOKEN = map(
    attrgetter, ("dead_from", "finished_at", "token")
)  # called by built-ins, without a frame for each job


class Pushes(Protocol):
    """Stores new jobs."""

    def push(self, jobs: Sequence[NewJob], tx: object = None, *, repeat: bool = False) -> list[Pushed]:
        """Store the jobs in a new transaction, or in the caller's; `repeat`: an earlier try may have."""

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        """Store the jobs in an open transaction, in queues that exist; `again`: the call is a repeat."""


class InsertsRows(Protocol):
    """Inserts rows of new jobs, and finds the rows that conflict with them."""

    def insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        """Insert the rows whose id and key are free; return them. `singly`: some of the ids may be taken."""

    def stored(self, run: Runner, job: NewJob) -> Pushed | None:
        """Return the answer for a job whose id is stored; None if it is not."""

    def holder(self, run: Runner, queue: str, key: str | None, *, to_replace: bool = False) -> JobRow | None:
        """Return the live job that holds a key, locked; None if there is none. `to_replace`: it will be written."""


class InsertStatements:
    """The statement that finds the holder of a key, for one dialect."""

    def __init__(self, _dialect: Dialect) -> None:
        of_key = jobs.c.queue == param("queue", String), jobs.c.key == param("job_key", String)
        self.holder = select(*live_row()).where(*of_key).with_for_update()


class Inserts:
    """Inserts jobs without a key together, and jobs with a key one by one."""

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

    def holder(self, run: Runner, queue: str, key: str | None, *, to_replace: bool = False) -> JobRow | None:
        found = run.rows(self._statements.holder, {"queue": queue, "job_key": key})
        return row_from(found[0]) if found else None


class Push:
    """Stores new jobs in a transaction."""

    def __init__(
        self, db: Database, transactions: Transactions, jobs: Jobs, queues: QueueRows, inserts: InsertsRows
    ) -> None:
        self._db, self._transactions = db, transactions
        self._jobs, self._queues, self._inserts = jobs, queues, inserts
        self._held_keys = HeldKeys(db, jobs)

    def push(self, jobs: Sequence[NewJob], tx: object = None, *, repeat: bool = False) -> list[Pushed]:
        push_in = self._held_keys.respected(jobs, self.push_in)
        return push_within(self._transactions, jobs, tx, push_in, repeat=repeat)

    def push_in(
        self,
        run: Runner,
        jobs: Sequence[NewJob],
        *,
        again: bool = False,
        begun: Callable[[JobRow], JobRow] = lambda row: row,
    ) -> list[Pushed]:
        """See `Pushes`; `begun`: returns the row of a new job as it is stored; running jobs have a token."""
        if self._db.dialect.single_writer:
            # The rows exist, unless the connection has just opened another file, which may lack them.
            self._queues.make_in(run, {job.queue for job in jobs})
        self._queues.use_lanes(run, {job.queue for job in jobs if job.lane != UNLANED})
        now = self._db.clock(run)
        results = self._jobs.stored(run, [job.id for job in jobs])  # the push is a repeat
        rows = [begun(created(job, now)) for job in jobs if job.id not in results]
        live, dead = rows, []
        if set(map(_FINISHED_AT, rows)) - {None}:
            live = [row for row in rows if row.finished_at is None]
            dead = [row for row in rows if row.finished_at is not None]
        inserted = self._inserts.insert(run, list({row.id: row for row in live}.values()), singly=again)
        if dead:
            inserted += self._kept(run, dead)
        results |= {row.id: Pushed(row.id, row.run_at, row.enqueued_at, token=row.token) for row in inserted}
        if set(map(_DEAD_FROM, inserted)) - {None}:
            self._queues.mark_letters(run, inserted)
        self._jobs.count_items(run, inserted, "pushed")
        if set(map(_TOKEN, inserted)) - {None}:
            self._jobs.count_items(run, [row for row in inserted if row.token is not None], "reserved")
        if again:
            results |= self._jobs.undo_ended(run, inserted)
        for job in jobs:
            if job.id not in results:
                results[job.id] = self.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]

    def _kept(self, run: Runner, dead: list[JobRow]) -> list[JobRow]:
        """Store parts of chunks that are dead already; return them."""
        settings = self._queues.settings_of(run, {row.queue for row in dead})
        self._jobs.keep(run, [row for row in dead if settings[row.queue].history_ttl > 0])
        return dead

    def met(self, run: Runner, job: NewJob, row: JobRow) -> Pushed:
        """Return the answer for a job whose id or key is taken."""
        if (known := self._inserts.stored(run, job)) is not None:
            return known
        holder = self._inserts.holder(run, job.queue, job.key, to_replace=job.on_duplicate == "replace")
        if holder is None:  # the holder has just finished
            if self._inserts.insert(run, [row], singly=True):
                self._jobs.count_items(run, [row], "pushed")
                return Pushed(row.id, row.run_at, row.enqueued_at)
            return self.met(run, job, row)
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.id)
        if job.on_duplicate == "replace" and (renewed := replaced(holder, job, row.enqueued_at)) is not None:
            self._jobs.rewrite(run, [(holder, renewed)])
            record_freed(run, [Step(holder, renewed)])
            holder = renewed
        return Pushed(holder.id, holder.run_at, holder.enqueued_at, duplicate=True)


def push_within(
    transactions: Transactions,
    jobs: Sequence[NewJob],
    tx: object,
    push_in: Callable[..., list[Pushed]],
    *,
    guarded: bool = False,
    repeat: bool = False,
) -> list[Pushed]:
    """Store jobs by `push_in`, in the caller's transaction if there is one; `guarded`: see `joined`."""
    if not jobs:
        return []
    queues = {job.queue for job in jobs}

    def work(run: Runner, again: bool) -> list[Pushed]:
        run.woken |= queues
        return push_in(run, jobs, again=again or repeat)

    return transactions.enter(jobs, tx, work, guarded=guarded)


def push_all(push: Pushes, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> None:
    """Store any number of jobs in an open transaction, in queues that exist."""
    for start in range(0, len(jobs), _PUSHED_AT_ONCE):
        push.push_in(run, jobs[start : start + _PUSHED_AT_ONCE], again=again)
