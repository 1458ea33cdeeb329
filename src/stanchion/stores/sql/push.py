"""Jobs in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from stanchion.errors import DuplicateKey
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.jobs import created, replaced
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import joined
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.jobs import SqlBase, Step, live_values, queue_values


class Pushing(SqlBase):
    """Stores new jobs, in a transaction of its own or in the caller's."""

    guards = False
    """The statements that push and commit refuse by themselves to work in another database than the store's."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._known: set[str] = set()

    def make_queues(self, queues: Iterable[str], run: Runner | None = None) -> None:
        """Make sure that these queues have their rows."""
        new = [queue_values(queue) for queue in queues if queue not in self._known]
        if not new:
            return
        if run is not None:
            run.change_each(self.statements.insert_queue, new)
            return
        self.database.write(lambda run, _again: run.change_each(self.statements.insert_queue, new))
        self._known.update(queues)

    def make_queues_of(self, run: Runner, queues: Iterable[str]) -> None:
        """Make sure that queues to which a caller's transaction pushes have their rows.

        With one writer, which that transaction is, in it; otherwise beside it, as others would wait for the row of a
        new queue until its end. But one that it has made itself, as by a move, would be waited for here.
        """
        if self.dialect.single_writer:
            self.make_queues(queues, run)
            return
        new = [queue for queue in queues if queue not in self._known]
        self.make_queues([queue for queue in new if self.queue_row(run, queue)[1] is None])

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        if not jobs:
            return []
        queues = {job.queue for job in jobs}
        if tx is not None:
            with joined(self.database, tx, guarded=self.guards and not any(job.lane for job in jobs)) as run:
                self.make_queues_of(run, queues)
                pushed = self._push_in(run, jobs)
                self.pass_on_slots(run)
                self.dialect.announce_in(tx, queues | run.woken, run.ended)
            return pushed
        self.make_queues(queues)
        pushed = self.write(lambda run, again: self._push_in(run, jobs, again=again), together=True)
        self.dialect.announce(queues)
        return pushed

    def _push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        """Insert those that are new; then see to those whose key is taken."""
        self.make_laned(run, {job.queue for job in jobs if job.lane})
        now = self.clock(run)
        results = self.known(run, jobs)
        rows = [created(job, now) for job in jobs if job.id not in results]
        inserted = self._insert(run, list({row.id: row for row in rows}.values()), singly=again)
        results |= {row.id: Pushed(row.id, row.run_at, row.enqueued_at) for row in inserted}
        self.tally(run, [(row.queue, "pushed") for row in inserted])
        for job in jobs:
            if job.id not in results:
                results[job.id] = self.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]

    def _insert(self, run: Runner, rows: Sequence[JobRow], *, singly: bool) -> list[JobRow]:
        """Insert the rows that can be; return them."""
        together = [row for row in rows if row.key is None and not singly]
        run.change_each(self.statements.insert_new, [live_values(row) for row in together])
        others = [row for row in rows if row.key is not None or singly]
        return together + [row for row in others if run.change(self.statements.insert_new, live_values(row)) == 1]

    def met(self, run: Runner, job: NewJob, row: JobRow) -> Pushed:
        """Return what becomes of a job whose id or key is there already."""
        if (known := self.known(run, [job])).get(job.id):
            return known[job.id]
        found = self.holder(run, job.queue, job.key)
        if not found:  # its holder has just finished
            if self._insert(run, [row], singly=True):
                self.tally(run, [(row.queue, "pushed")])
                return Pushed(row.id, row.run_at, row.enqueued_at)
            return self.met(run, job, row)
        holder = JobRow(*found[0])
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.id)
        if job.on_duplicate == "replace" and (renewed := replaced(holder, job, row.enqueued_at)) is not None:
            self.rewrite(run, [renewed])
            self.follow(run, [Step(holder, renewed)])
            holder = renewed
        return Pushed(holder.id, holder.run_at, holder.enqueued_at, duplicate=True)

    def holder(self, run: Runner, queue: str, key: str | None) -> Sequence[Row]:
        """Return the live job that has a key, locked, or none."""
        return run.rows(self.statements.by_key, {"queue": queue, "job_key": key})

    def known(self, run: Runner, jobs: Sequence[NewJob]) -> dict[str, Pushed]:
        """Return those of the jobs that are stored already, live or finished: this push is a repeat."""
        ids = {"ids": json.dumps([job.id for job in jobs])}
        return {row[0]: Pushed(*row) for row in run.rows(self.statements.known, ids)}
