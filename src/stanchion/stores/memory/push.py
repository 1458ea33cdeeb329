"""New jobs: each is stored once, and a key belongs to one live job of its queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stanchion.errors import DuplicateKey
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.slots import Slots
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.lifecycle import jobs as job_rules


class Pushes:
    """Stores new jobs, or finds them stored."""

    def __init__(self, jobs: Jobs, slots: Slots) -> None:
        self._jobs, self._slots = jobs, slots

    def push(self, jobs: Sequence[NewJob]) -> list[Pushed]:
        """Store jobs in order, all or nothing; raise DuplicateKey."""
        self.refuse_duplicates(jobs)
        return self.store(jobs)

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""
        new = [job for job in jobs if self._jobs.find(job.id) is None]
        keys = ((job.queue, job.key, self._jobs.known(job.queue).keys.get(job.key or "")) for job in new)
        job_rules.refuse_duplicates(new, {(queue, key): holder for queue, key, holder in keys if holder is not None})
        now = self._jobs.now()
        for job in new:
            finished = self._jobs.finished_holder(job, now) if job.on_duplicate == "raise" else None
            if finished is not None:
                raise DuplicateKey(job.queue, job.key or "", finished.id, finished=True)

    def store(self, jobs: Iterable[NewJob]) -> list[Pushed]:
        """Store jobs that were checked for duplicates."""
        now = self._jobs.now()
        return [self._store(job, now) for job in jobs]

    def _store(self, job: NewJob, now: int) -> Pushed:
        known = self._jobs.find(job.id)
        if known is not None:
            return Pushed(known.id, known.run_at, known.enqueued_at)
        queue = self._jobs.queue(job.queue)
        holder = queue.keys.get(job.key) if job.key is not None else None
        if holder is not None:
            row = self._meet(queue.live[holder], job, now)
            return Pushed(row.id, row.run_at, row.enqueued_at, duplicate=True)
        if (finished := self._jobs.finished_holder(job, now)) is not None:
            return Pushed(finished.id, finished.run_at, finished.enqueued_at, duplicate=True)
        row = job_rules.created(job, now)
        queue.counts["pushed"] += job_rules.items_of(row)
        self._jobs.store(row)
        return Pushed(row.id, row.run_at, row.enqueued_at)

    def _meet(self, holder: JobRow, job: NewJob, now: int) -> JobRow:
        """Return the job that has the key, after the new job has replaced its work if it is to."""
        replaced = job_rules.replaced(holder, job, now) if job.on_duplicate == "replace" else None
        if replaced is None:
            return holder
        self._jobs.replace(holder, replaced)
        self._slots.release(holder, replaced)
        return replaced
