"""Operating: jobs are cancelled, re-driven, deleted and taken over, and what is old is removed."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs, Queue
from stanchion.stores.memory.slots import Slots
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, Redriven
from stanchion.stores.rules import outcomes as outcome_rules


class Operations:
    """What operators, upkeep and copies do to jobs, reserved or not."""

    def __init__(self, jobs: Jobs, slots: Slots, flows: Flows) -> None:
        self._jobs, self._slots, self._flows = jobs, slots, flows

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""
        now = self._jobs.now()
        return [self._cancel(row, now) if row else None for row in map(self._jobs.find, ids)]

    def _cancel(self, row: JobRow, now: int) -> JobState:
        if row.finished_at is None:
            step = outcome_rules.cancel(row, now)
            if step is None:
                row = row._replace(cancel_requested=True)
                self._jobs.put(row)
            else:
                row = self._flows.apply(row, step)
        return JobState(row.state)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""
        now = self._jobs.now()
        return [self._retry(row, now) for row in map(self._jobs.find, ids)]

    def _retry(self, row: JobRow | None, now: int) -> Redriven:
        if row is None:
            return Redriven.MISSING
        if row.state == JobState.DONE:
            return Redriven.DONE
        if row.state == JobState.RUNNING:
            return Redriven.RUNNING
        again = outcome_rules.retried(row, now)
        if again.key is not None and self._jobs.known(again.queue).keys.get(again.key, row.id) != row.id:
            return Redriven.KEY_TAKEN
        self._flows.change(row, again)
        return Redriven.READY

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        found = [row for job_id, end in set(ends) if (row := self._jobs.find(job_id)) and row.finished_at == end]
        for row in found:
            self._jobs.remove(row)
        return len(found)

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, unless they run; return the ids of those deleted."""
        return [job_id for job_id in dict.fromkeys(ids) if self._take(self._jobs.find(job_id))]

    def _take(self, row: JobRow | None) -> bool:
        if row is None or row.state == JobState.RUNNING:
            return False
        self._jobs.remove(row)
        self._slots.release(row, None)
        return True

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there; False for each whose key a live job has."""
        return [self._adopt(row) for row in rows]

    def _adopt(self, row: JobRow) -> bool:
        if self._jobs.find(row.id) is not None:
            return True
        if row.finished_at is not None:
            self._jobs.keep(row)
        elif row.key is not None and row.key in self._jobs.queue(row.queue).keys:
            return False
        else:
            self._jobs.put(row)
        return True

    def purge(self, queue: str, older_than: float | None, limit: int) -> int:
        """Delete up to `limit` finished jobs that ended `older_than` seconds ago (None: the queue's ttl)."""
        return self._purge(self._jobs.known(queue), older_than, limit)

    def purge_all(self) -> None:
        """Delete what no queue keeps any longer."""
        for queue in self._jobs.queues.values():
            self._purge(queue, None, None)

    def _purge(self, queue: Queue, older_than: float | None, limit: int | None) -> int:
        age = queue.settings.history_ttl if older_than is None else older_than
        newest = self._jobs.now() - int(age * SECOND)
        old = [row for row in queue.history.values() if (row.finished_at or 0) <= newest][:limit]
        for row in old:
            self._jobs.remove(row)
        return len(old)
