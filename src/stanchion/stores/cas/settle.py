"""Outcomes of reservations, each by a compare-and-set of its own."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.jobs import Decision, Facts, JobLoop
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Continue, Extension, Outcome, Progress
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import outcomes as outcome_rules


class Outcomes:
    """Applies outcomes, fenced by their tokens."""

    def __init__(self, loop: JobLoop) -> None:
        self._loop = loop

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes; None for each whose lease was lost."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[JobState | None]:
            outcome = outcomes[index]
            if not claim_rules.holds(row, outcome.token, facts.now):
                known = repeat or facts.repeated
                return Decision(claim_rules.left_in(row, outcome.token, facts.now) if known else None)
            step = outcome_rules.settled(row, outcome, facts.settings[row.queue], facts.now)
            opens = outcome if isinstance(outcome, Continue | Commit) and step.counted == "moved" else None
            return Decision(step.state(facts.now), step.row, step.counted, opens=opens)

        return self._loop.decide_each([outcome.id for outcome in outcomes], decide)

    def extend(self, extensions: Sequence[Extension]) -> list[bool]:
        """Renew leases; False for each that was lost."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[bool]:
            wish = extensions[index]
            if not claim_rules.holds(row, wish.token, facts.now):
                return Decision(False)
            return Decision(True, claim_rules.extended(row, wish.seconds, facts.now))

        return self._loop.decide_each([wish.id for wish in extensions], decide)

    def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Record progress; False for each reservation that was lost."""

        def decide(index: int, row: JobRow | None, facts: Facts) -> Decision[bool]:
            report = reports[index]
            if not claim_rules.holds(row, report.token, facts.now):
                return Decision(False)
            return Decision(True, row._replace(progress=report.value))

        return self._loop.decide_each([report.id for report in reports], decide)
