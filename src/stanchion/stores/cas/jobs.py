"""Jobs changed by compare-and-set, in a store without transactions over several jobs.

A job is read, a pure function decides its change, and the store writes the changed job in one atomic operation if the
job is unchanged since. Otherwise it is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stanchion.stores.cas.entries import Entry, FollowUp, entry_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit, Continue, Tally
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.jobs import Transition, items_of

Answer = TypeVar("Answer")


class Seen(NamedTuple):
    """A job as read, the version that detects later changes, and the store's clock at that time."""

    row: JobRow
    version: Any
    at: int


class Change(NamedTuple):
    """A change of a job that was read, with the queue counter it increments by its items, and its outbox entry.

    A counter with a leading minus is decremented; a lone minus: the start was not counted. `told`: what the change
    counts in place of that. A job of one item that tells nothing counts one; `tallies` is right for all.
    """

    seen: Seen
    row: JobRow
    counted: str | None = None
    entry: Entry | None = None
    told: tuple[Tally, ...] = ()

    def tallies(self) -> tuple[Tally, ...]:
        """Return what the change adds to the counters of queues."""
        before, counted = self.seen.row, self.counted
        if counted is None or counted == "-":
            return ()
        if counted.startswith("-"):
            return (Tally(before.queue, counted[1:], -items_of(before)),)
        return Transition(self.row, counted, self.told).tallies(before)


class Result(Enum):
    """The result of a change."""

    DONE = auto()
    CHANGED = auto()
    """Another change was first; nothing was written."""
    KEY_TAKEN = auto()
    """Another live job of the queue has the key; nothing was written."""


class Results(NamedTuple):
    """The results of changes; `repeated`: after a lost reply, so a CHANGED may be the work of the first try."""

    each: list[Result]
    repeated: bool = False


class Jobs(Protocol):
    """Primitives on the jobs of a store and their outbox; everything else is built on them.

    Each item of a call is one atomic operation, but the call is not. Each may be repeated.
    """

    def now(self) -> int:
        """Return the store's clock."""

    def read(self, ids: Sequence[str], queues: Sequence[str] | None = None) -> tuple[int, dict[str, Seen]]:
        """Return the store's clock, and the jobs that are live or in history, by id.

        `queues`: the queue of each, where alone it is looked for; None: in all queues.
        """

    def compare_and_set(self, changes: Sequence[Change]) -> Results:
        """Apply each change whose job is unchanged since it was read: row, indexes, counter and entry.

        A finished job goes to history if its queue keeps one, and is deleted otherwise.
        """

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; defaults for a queue that has none."""

    def entries(self, before: int) -> Iterable[Entry]:
        """Return the outbox entries that are stale by a time that is STALE before now; see `entries.is_stale`."""

    def delete_entries(self, entries: Sequence[Entry]) -> None:
        """Delete applied entries."""


class Decision(NamedTuple, Generic[Answer]):
    """The answer for a job and its new row, if any; `otherwise`: the answer if its key is taken."""

    answer: Answer
    row: JobRow | None = None
    counted: str | None = None
    otherwise: Answer | None = None
    opens: Continue | Commit | None = None
    """The outcome whose nodes or jobs are to be stored."""
    told: tuple[Tally, ...] = ()
    """What is counted in place of the step; see `Transition`."""


class Facts(NamedTuple):
    """Inputs of a decision in addition to the job: clock, settings, and whether this may be a repeat."""

    now: int
    settings: Mapping[str, QueueSettings]
    repeated: bool


Decide = Callable[[int, JobRow | None, Facts], Decision[Answer]]


class JobLoop:
    """The read, decide, compare-and-set loop; jobs that lost the race are retried."""

    def __init__(self, jobs: Jobs, follow_up: FollowUp) -> None:
        self.jobs, self._follow_up = jobs, follow_up

    def decide_each(
        self,
        ids: Sequence[str],
        decide: Decide[Answer],
        *,
        settings: bool = True,
        queues: Sequence[str] | None = None,
        targets: Iterable[str] = (),
    ) -> list[Answer]:
        """Decide the answer and the change of each job.

        `settings`: decisions need the settings of the queues, and of `targets`; `queues`: the queue of each job, while
        no reply was lost.
        """
        answers: dict[int, Answer] = {}
        left, repeated = list(range(len(ids))), False
        while left:
            within = None if queues is None or repeated else [queues[index] for index in left]
            now, seen = self.jobs.read([ids[index] for index in left], within)
            found_in = {one.row.queue for one in seen.values()} if settings else ()
            facts = Facts(now, self.jobs.settings_of({*found_in, *targets}) if settings else {}, repeated)
            changing: dict[str, int] = {}
            changes: list[Change] = []
            again: list[int] = []
            otherwise: dict[int, Answer | None] = {}
            for index in left:
                if ids[index] in changing:  # a repeated id: its second decision sees the result of the first
                    again.append(index)
                    continue
                found = seen.get(ids[index])
                decision = decide(index, found.row if found else None, facts)
                answers[index] = decision.answer
                if found is not None and decision.row is not None:
                    changing[ids[index]] = index
                    otherwise[index] = decision.otherwise
                    entry = entry_of(found.row, decision.row, decision.counted, decision.opens, now)
                    changes.append(Change(found, decision.row, decision.counted, entry, decision.told))
            if changes:
                results = self.jobs.compare_and_set(changes)
                self._follow_up(made(changes, results))
                repeated = repeated or results.repeated
                for index, result in zip(changing.values(), results.each, strict=True):
                    if result is Result.CHANGED:
                        again.append(index)
                    elif result is Result.KEY_TAKEN and (taken := otherwise[index]) is not None:
                        answers[index] = taken
            left = sorted(again)
        return [answers[index] for index in range(len(ids))]


def made(changes: Sequence[Change], results: Results) -> list[Entry]:
    """Return the entries of the changes that were made."""
    pairs = zip(changes, results.each, strict=True)
    return [change.entry for change, result in pairs if change.entry and result is Result.DONE]
