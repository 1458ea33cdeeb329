"""Outcomes of reservations, each applied by its own compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Outcome, Pass, Progress
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules


class Outcomes:
    """Applies outcomes, fenced by their leases."""

    def __init__(self, loop: JobLoop) -> None:
        self._loop = loop

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes; return the resulting state of each, None if its lease was lost."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[JobState | None]:
            outcome = outcomes[index]
            if not claim_rules.holds(row, outcome.lease, facts.now):
                known = (repeat or facts.repeated) and not isinstance(outcome, Extend | Progress)
                return Decision(claim_rules.left_in(row, outcome.lease, facts.now) if known else None)
            if isinstance(outcome, Extend | Progress):
                return Decision(JobState.RUNNING, claim_rules.renewed(row, outcome, facts.now))
            last, end = outcome, row.queue
            if isinstance(outcome, Pass):
                last, end = outcome.then, outcome_rules.ends_in(outcome)
            step = outcome_rules.settled(row, outcome, facts.settings[end], facts.now)
            opens = last if isinstance(last, Continue | Commit) and step.counted == "moved" else None
            if opens is not None:
                outcome_rules.refuse_rows(opens)
            return Decision(step.state(facts.now), step.row, step.counted, opens=opens, told=step.told)

        leases = [outcome.lease for outcome in outcomes]
        # What an earlier try left may be in another queue.
        queues = None if repeat else [lease.queue for lease in leases]
        targets = list(map(outcome_rules.ends_in, outcomes)) if Pass in map(type, outcomes) else ()
        return self._loop.decide_each([lease.id for lease in leases], decide, queues=queues, targets=targets)
