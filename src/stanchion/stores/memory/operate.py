"""Operations: cancel, retry, delete, adopt and upkeep."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.slots import Slots
from stanchion.stores.records.jobs import SECOND, JobRef, JobRow, JobState, Redriven
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import is_overdue
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules


class Operations:
    """Changes made by operators, upkeep and copies, to reserved jobs or others."""

    def __init__(self, jobs: Jobs, slots: Slots, flows: Flows) -> None:
        self._jobs, self._slots, self._flows = jobs, slots, flows

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs; ask running ones to stop. Return the new states, None if unknown."""
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
        """Make dead, cancelled and scheduled jobs ready now, with all their attempts and the same ids."""
        now = self._jobs.now()
        return [self._retry(row, now) for row in map(self._jobs.find, ids)]

    def _retry(self, row: JobRow | None, now: int) -> Redriven:
        verdict, again = outcome_rules.redriven(row, now)
        if row is None or verdict is not Redriven.READY:
            return verdict
        after = again or row
        if after.key is not None and self._jobs.known(after.queue).keys.get(after.key, row.id) != row.id:
            return Redriven.KEY_TAKEN
        self._flows.change(row, after)
        return verdict

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete jobs that are unchanged since they were read, finished or queued; return for each whether it was."""
        deleted = {ref for ref in dict.fromkeys(refs) if self._delete(ref)}
        return [ref in deleted for ref in refs]

    def _delete(self, ref: JobRef) -> bool:
        row = self._jobs.find(ref.id)
        if row is None or row.ref != ref or row.state == JobState.RUNNING:
            return False
        self._jobs.remove(row)
        self._slots.release(row, None)
        return True

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store unchanged; False for each whose key a live job has."""
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

    def keep_up(self) -> None:
        """End jobs that have expired, delete history beyond its retention, and reset the shapes of queues."""
        now = self._jobs.now()
        for queue in list(self._jobs.queues.values()):
            for row in [row for row in queue.live.values() if is_overdue(row, now)]:
                self._flows.apply(row, outcome_rules.lapsed(row, now))
            queue.reshape()
            for row in [row for row in queue.history.values() if _is_old(row, queue.settings, now)]:
                self._jobs.remove(row)
            if queue.settings.history_max is not None:
                newest_first = sorted(
                    queue.history.values(), key=lambda row: (row.finished_at or 0, row.id), reverse=True
                )
                for row in newest_first[queue.settings.history_max :]:
                    self._jobs.remove(row)


def _is_old(row: JobRow, settings: QueueSettings, now: int) -> bool:
    """Return whether a finished job is beyond its retention."""
    return (row.finished_at or 0) <= now - int(settings.kept_for(row.state) * SECOND)
