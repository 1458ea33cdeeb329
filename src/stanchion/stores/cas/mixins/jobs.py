"""Steps in the life of a job by compare-and-set, for a store without transactions over several jobs.

A job is read, the pure functions of `transitions` say what becomes of it, and the store swaps the one for the
other in one atomic operation, unless something has changed the job since: then it is read anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeVar

from stanchion.stores.records.jobs import JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Commit, Continue, Extension, Outcome, Progress
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.liveness import is_lost
from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay, had_begun

Answer = TypeVar("Answer")

_RECOVERED = 500


class Seen(NamedTuple):
    """A job as it was read, and what the store tells by whether it is still the same."""

    row: JobRow
    version: Any


class Duty(NamedTuple):
    """What a step leaves to be done at gates and in flows: noted with the step, and struck off when it is done.

    It is noted in the queue, and with the job, of before the step, under a `mark` of its own. `text` is for
    `duties.py` alone to read.
    """

    mark: str
    noted_at: int
    queue: str
    job: str
    text: str


class Change(NamedTuple):
    """What is to become of a job that was seen, the counter of the queue in which it happens, and what it entails.

    A counter with a minus before it counts down.
    """

    seen: Seen
    row: JobRow
    counted: str | None = None
    duty: Duty | None = None


class Swap(Enum):
    """What became of a change."""

    DONE = auto()
    CHANGED = auto()
    """Something else came first; nothing was written."""
    KEY_TAKEN = auto()
    """Another live job of the queue has the key; nothing was written."""


class Swapped(NamedTuple):
    """The answers to a batch of changes; `repeated`: after a lost answer, so that a CHANGED may be its own work."""

    swaps: list[Swap]
    repeated: bool = False


class Decision(NamedTuple, Generic[Answer]):
    """What to answer for a job and what to make of it; `otherwise` is the answer when its key is taken."""

    answer: Answer
    row: JobRow | None = None
    counted: str | None = None
    otherwise: Answer | None = None
    opens: Continue | Commit | None = None
    """What else there is to be from now on: the rest of the flow that the job goes on as, or the jobs it goes on as."""


class Context(NamedTuple):
    """What a decision may depend on besides the job: the clock, the settings, and whether this may be a repeat."""

    now: int
    settings: Mapping[str, QueueSettings]
    repeated: bool


Decide = Callable[[int, JobRow | None, Context], Decision[Answer]]


class Optimistic(ABC):
    """The verbs that change jobs which are there already."""

    lost_lease_delay: LostLeaseDelay = staticmethod(default_delay)

    @abstractmethod
    def look(self, ids: Sequence[str]) -> tuple[int, dict[str, Seen]]:
        """Return the store's clock, and those of the jobs that are live or in history."""

    @abstractmethod
    def swap(self, changes: Sequence[Change]) -> Swapped:
        """Make each change whose job is as it was seen: its row, its place in lines and indexes, the counter.

        A finished job goes to history if its queue keeps one, and is gone otherwise.
        """

    @abstractmethod
    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; the default ones for a queue that has none yet."""

    @abstractmethod
    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> Iterable[str]:
        """Return the ids of running jobs whose holder may be gone; a job too many does no harm."""

    @abstractmethod
    def known_workers(self) -> dict[str, WorkerRow]:
        """Return all workers that have a row."""

    @abstractmethod
    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order."""

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    @abstractmethod
    def duty_of(
        self, before: JobRow, after: JobRow | None, counted: str | None, opens: Continue | Commit | None, now: int
    ) -> Duty | None:
        """Return what a step entails; `after` is None for a job that was deleted."""

    @abstractmethod
    def follow_up(self, duties: Sequence[Duty]) -> None:
        """Do what steps that were made entail."""

    # -- outcomes

    def settle_each(
        self, outcomes: Sequence[Outcome], *, repeat: bool = False, counted: str | None = None
    ) -> list[JobState | None]:
        """Apply outcomes, each by a swap of its own; `counted`: in place of what they count as."""

        def decide(index: int, row: JobRow | None, context: Context) -> Decision[JobState | None]:
            outcome = outcomes[index]
            if not claim_rules.holds(row, outcome.token, context.now):
                known = repeat or context.repeated
                return Decision(claim_rules.left_in(row, outcome.token, context.now) if known else None)
            step = outcome_rules.settled(row, outcome, context.settings[row.queue], context.now)
            opens = outcome if isinstance(outcome, Continue | Commit) and step.counted == "moved" else None
            return Decision(step.state(context.now), step.row, counted or step.counted, opens=opens)

        return self.decide_each([outcome.id for outcome in outcomes], decide)

    def extend(self, extensions: Sequence[Extension]) -> list[bool]:
        """Renew leases; False for each that was lost."""

        def decide(index: int, row: JobRow | None, context: Context) -> Decision[bool]:
            wish = extensions[index]
            if not claim_rules.holds(row, wish.token, context.now):
                return Decision(False)
            return Decision(True, claim_rules.extended(row, wish.seconds, context.now))

        return self.decide_each([wish.id for wish in extensions], decide)

    def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Record progress; False for each reservation that was lost."""

        def decide(index: int, row: JobRow | None, context: Context) -> Decision[bool]:
            report = reports[index]
            if not claim_rules.holds(row, report.token, context.now):
                return Decision(False)
            return Decision(True, row._replace(progress=report.value))

        return self.decide_each([report.id for report in reports], decide)

    # -- liveness

    def recover(self, limit: int = _RECOVERED, as_of: int | None = None) -> list[JobRow]:
        """Give back jobs whose lease ran out or whose worker is dead; return them as they are now."""
        # The clock, then the workers, then the jobs: however long it takes from one to the next, no worker is
        # judged by a beat that is older than need be, and no job by workers that were there before its own.
        if as_of is None:
            as_of = self.now()
        workers = self.known_workers()
        return self.free(list(self.suspects(workers, as_of, limit))[:limit], workers, as_of)

    def free(self, ids: Sequence[str], workers: Mapping[str, WorkerRow], as_of: int | None = None) -> list[JobRow]:
        """Take back those of the jobs that were lost at this time (None: now), and return them as they are now."""

        def decide(_index: int, row: JobRow | None, context: Context) -> Decision[JobRow | None]:
            if row is None or not is_lost(row, workers, context.now if as_of is None else as_of):
                return Decision(None)
            begun = had_begun(row, workers.get(row.worker or ""))
            settings = context.settings[row.queue]
            step = outcome_rules.lease_lost(row, settings, context.now, begun=begun, delay=self.lost_lease_delay)
            return Decision(step.row, step.row, step.counted)

        return [row for row in self.decide_each(ids, decide) if row is not None]

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""

        def decide(_index: int, row: JobRow | None, context: Context) -> Decision[JobState | None]:
            if row is None:
                return Decision(None)
            if row.finished_at is not None:
                return Decision(JobState(row.state))
            step = outcome_rules.cancel(row, context.now)
            if step is None:
                return Decision(JobState.RUNNING, row._replace(cancel_requested=True))
            return Decision(JobState.CANCELLED, step.row, step.counted)

        return self.decide_each(ids, decide)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""

        def decide(_index: int, row: JobRow | None, context: Context) -> Decision[Redriven]:
            if row is None:
                return Decision(Redriven.MISSING)
            if row.state == JobState.DONE:
                return Decision(Redriven.DONE)
            if row.state == JobState.RUNNING:
                return Decision(Redriven.RUNNING)
            again = outcome_rules.retried(row, context.now)
            return Decision(Redriven.READY, None if again is row else again, otherwise=Redriven.KEY_TAKEN)

        return self.decide_each(ids, decide)

    # -- the round

    def decide_each(self, ids: Sequence[str], decide: Decide[Answer]) -> list[Answer]:
        """Decide for each job what is to be answered and changed, anew for each that changed meanwhile."""
        answers: dict[int, Answer] = {}
        left, repeated = list(range(len(ids))), False
        while left:
            now, seen = self.look([ids[index] for index in left])
            context = Context(now, self.settings_of({one.row.queue for one in seen.values()}), repeated)
            changing: dict[str, int] = {}
            changes: list[Change] = []
            again: list[int] = []
            otherwise: dict[int, Answer | None] = {}
            for index in left:
                if ids[index] in changing:  # named twice: the second one sees what the first one made of it
                    again.append(index)
                    continue
                found = seen.get(ids[index])
                decision = decide(index, found.row if found else None, context)
                answers[index] = decision.answer
                if found is not None and decision.row is not None:
                    changing[ids[index]] = index
                    otherwise[index] = decision.otherwise
                    duty = self.duty_of(found.row, decision.row, decision.counted, decision.opens, now)
                    changes.append(Change(found, decision.row, decision.counted, duty))
            if changes:
                swapped = self.swap(changes)
                done = zip(changes, swapped.swaps, strict=True)
                self.follow_up([change.duty for change, swap in done if change.duty and swap is Swap.DONE])
                repeated = repeated or swapped.repeated
                for index, swap in zip(changing.values(), swapped.swaps, strict=True):
                    if swap is Swap.CHANGED:
                        again.append(index)
                    elif swap is Swap.KEY_TAKEN and (taken := otherwise[index]) is not None:
                        answers[index] = taken
            left = sorted(again)
        return [answers[index] for index in range(len(ids))]
