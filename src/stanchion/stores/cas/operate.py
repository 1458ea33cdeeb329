"""Operations on jobs: cancel and retry."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import JobRow, JobState, Redriven
from stanchion.stores.records.outcomes import Bury
from stanchion.stores.rules.expiry import is_overdue
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules
from stanchion.stores.rules.lifecycle.jobs import stored_state_of
from stanchion.stores.rules.undeliverable import misfit


class Operator:
    """Changes jobs without a reservation."""

    def __init__(self, loop: JobLoop) -> None:
        self._loop = loop

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs; ask running ones to stop. Return the new states, None if unknown."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[JobState | None]:
            if row is None:
                return Decision(None)
            if row.finished_at is not None:
                return Decision(stored_state_of(row, facts.now))
            step = outcome_rules.cancel(row, facts.now)
            if step is None:
                return Decision(JobState.RUNNING, row._replace(cancel_requested=True))
            return Decision(JobState.CANCELLED, step.row, step.counted)

        return self._loop.decide_each(ids, decide)

    def end_overdue(self, ids: Sequence[str]) -> list[str]:
        """End the jobs among these that have expired; return those that may expire later, such as running ones."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[bool]:
            if row is None or not is_overdue(row, facts.now):
                return Decision(row is not None and row.expires is not None and row.finished_at is None)
            step = outcome_rules.lapsed(row, facts.now)
            return Decision(False, step.row, step.counted)

        return [one for one, may_expire in zip(ids, self._loop.decide_each(ids, decide), strict=True) if may_expire]

    def bury_misfits(self, ids: Sequence[str]) -> None:
        """Bury the unclaimed jobs among these that have values of wrong types."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[None]:
            fault = None if row is None else misfit(row)
            if row is None or fault is None or row.finished_at is not None or row.state == JobState.RUNNING:
                return Decision(None)
            step = outcome_rules.settled(row, Bury(row.lease, fault), facts.settings[row.queue], facts.now)
            return Decision(None, step.row, step.counted)

        self._loop.decide_each(ids, decide)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all their attempts and the same ids."""

        def decide(_index: int, row: JobRow | None, facts: Facts) -> Decision[Redriven]:
            return Decision(*outcome_rules.redriven(row, facts.now), otherwise=Redriven.KEY_TAKEN)

        return self._loop.decide_each(ids, decide)
