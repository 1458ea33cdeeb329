"""Jobs in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stanchion.errors import DuplicateKey
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.jobs import created, replaced
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.jobs import Step


class Pushing(SqlBase):
    """Stores new jobs, in a transaction of its own or in the caller's."""

    guards = False
    """The statements that push and commit refuse by themselves to work in another database than the store's."""

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        if not jobs:
            return []
        queues = {job.queue for job in jobs}

        def work(run: Runner, again: bool) -> list[Pushed]:
            run.woken |= queues
            return self._push_in(run, jobs, again=again)

        guarded = self.guards and not any(job.lane for job in jobs)
        return self.transactions.enter(queues, tx, work, guarded=guarded)

    def _push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        """Insert those that are new; then see to those whose key is taken."""
        self.queue_rows.make_laned(run, {job.queue for job in jobs if job.lane})
        now = self.clock(run)
        results = self.known(run, jobs)
        rows = [created(job, now) for job in jobs if job.id not in results]
        inserted = self._insert(run, list({row.id: row for row in rows}.values()), singly=again)
        results |= {row.id: Pushed(row.id, row.run_at, row.enqueued_at) for row in inserted}
        self.jobs.tally(run, [(row.queue, "pushed") for row in inserted])
        for job in jobs:
            if job.id not in results:
                results[job.id] = self.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]

    def _insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        """Insert the rows that can be; return them."""
        together = [row for row in rows if row.key is None and not singly]
        self.jobs.insert(run, together)
        others = [row for row in rows if row.key is not None or singly]
        return together + [row for row in others if self.jobs.insert_one(run, row)]

    def met(self, run: Runner, job: NewJob, row: JobRow) -> Pushed:
        """Return what becomes of a job whose id or key is there already."""
        if (known := self.known(run, [job])).get(job.id):
            return known[job.id]
        found = self.holder(run, job.queue, job.key)
        if not found:  # its holder has just finished
            if self._insert(run, [row], singly=True):
                self.jobs.tally(run, [(row.queue, "pushed")])
                return Pushed(row.id, row.run_at, row.enqueued_at)
            return self.met(run, job, row)
        holder = JobRow(*found[0])
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.id)
        if job.on_duplicate == "replace" and (renewed := replaced(holder, job, row.enqueued_at)) is not None:
            self.jobs.rewrite(run, [renewed])
            self.follow(run, [Step(holder, renewed)])
            holder = renewed
        return Pushed(holder.id, holder.run_at, holder.enqueued_at, duplicate=True)

    def holder(self, run: Runner, queue: str, key: str | None) -> Sequence[Row]:
        """Return the live job that has a key, locked, or none."""
        return run.rows(self.statements.by_key, {"queue": queue, "job_key": key})

    def known(self, run: Runner, jobs: Sequence[NewJob]) -> dict[str, Pushed]:
        """Return those of the jobs that are stored already, live or finished: this push is a repeat."""
        return self.jobs.stored(run, [job.id for job in jobs])
