"""What an operator does to jobs: cancel, drive again, replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.rules import jobs as job_rules
from stanchion.stores.rules import outcomes as outcome_rules


class Operator:
    """Changes jobs from outside of any reservation."""

    def __init__(self, loop: JobLoop, push: Callable[[Sequence[NewJob]], list[Pushed]]) -> None:
        self._loop, self._push = loop, push

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[JobState | None]:
            if row is None:
                return Decision(None)
            if row.finished_at is not None:
                return Decision(JobState(row.state))
            step = outcome_rules.cancel(row, facts.now)
            if step is None:
                return Decision(JobState.RUNNING, row._replace(cancel_requested=True))
            return Decision(JobState.CANCELLED, step.row, step.counted)

        return self._loop.decide_each(ids, decide)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[Redriven]:
            if row is None:
                return Decision(Redriven.MISSING)
            if row.state == JobState.DONE:
                return Decision(Redriven.DONE)
            if row.state == JobState.RUNNING:
                return Decision(Redriven.RUNNING)
            again = outcome_rules.retried(row, facts.now)
            return Decision(Redriven.READY, None if again is row else again, otherwise=Redriven.KEY_TAKEN)

        return self._loop.decide_each(ids, decide)

    def replay(self, ids: Sequence[str], new_ids: Sequence[str]) -> list[Pushed | None]:
        """Enqueue copies of finished jobs that name their origin; None for each that is not in history."""
        _, seen = self._loop.jobs.read(ids)
        copies = {
            new_id: job_rules.replay(seen[job_id].row, new_id)
            for job_id, new_id in zip(ids, new_ids, strict=True)
            if job_id in seen and seen[job_id].row.finished_at is not None
        }
        pushed = dict(zip(copies, self._push(list(copies.values())), strict=True))
        return [pushed.get(new_id) for new_id in new_ids]
