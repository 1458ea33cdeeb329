"""Jobs changed by compare-and-set, in a store without transactions over several jobs.

A job is read, a pure function decides what becomes of it, and the store writes the one in place of the other in one
atomic operation, unless something has changed the job since: then it is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stanchion.stores.cas.entries import Entry, FollowUp, entry_of
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.records.queues import QueueSettings

Answer = TypeVar("Answer")


class Seen(NamedTuple):
    """A job as it was read, and what the store tells by whether it is still the same."""

    row: JobRow
    version: Any


class Change(NamedTuple):
    """What is to become of a job that was read, with the counter of the queue in which it happens, and its entry.

    A counter with a minus before it counts down.
    """

    seen: Seen
    row: JobRow
    counted: str | None = None
    entry: Entry | None = None


class Result(Enum):
    """What became of a change."""

    DONE = auto()
    CHANGED = auto()
    """Something else came first; nothing was written."""
    KEY_TAKEN = auto()
    """Another live job of the queue has the key; nothing was written."""


class Results(NamedTuple):
    """The results of changes; `repeated`: after a lost reply, so that a CHANGED may be the work of the first try."""

    each: list[Result]
    repeated: bool = False


class Jobs(Protocol):
    """The jobs of a store, and their outbox: the primitives on which all else is built.

    Each item of a call is one atomic operation, no call as a whole is, and each may be repeated.
    """

    def now(self) -> int:
        """Return the store's clock."""

    def read(self, ids: Sequence[str]) -> tuple[int, dict[str, Seen]]:
        """Return the store's clock, and those of the jobs that are live or in history."""

    def compare_and_set(self, changes: Sequence[Change]) -> Results:
        """Make each change whose job is as it was read: its row, its place in the indexes, the counter, the entry.

        A finished job goes to history if its queue keeps one, and is gone otherwise.
        """

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; the default ones for a queue that has none yet."""

    def entries(self, before: int) -> Iterable[Entry]:
        """Return the outbox entries that were written before this moment, on the store's clock."""

    def delete_entries(self, entries: Sequence[Entry]) -> None:
        """Delete entries that are applied."""


class Decision(NamedTuple, Generic[Answer]):
    """What to answer for a job and what to make of it; `otherwise` is the answer when its key is taken."""

    answer: Answer
    row: JobRow | None = None
    counted: str | None = None
    otherwise: Answer | None = None
    opens: Continue | Commit | None = None
    """The outcome with which the rest of a flow, or other jobs, are to be stored."""


class Facts(NamedTuple):
    """What a decision may depend on besides the job: the clock, the settings, and whether this may be a repeat."""

    now: int
    settings: Mapping[str, QueueSettings]
    repeated: bool


Decide = Callable[[int, JobRow | None, Facts], Decision[Answer]]


class JobLoop:
    """The loop of read, decide, compare-and-set; jobs that lost the race are retried."""

    def __init__(self, jobs: Jobs, follow_up: FollowUp) -> None:
        self.jobs, self._follow_up = jobs, follow_up

    def decide_each(self, ids: Sequence[str], decide: Decide[Answer], *, settings: bool = True) -> list[Answer]:
        """Decide for each job what to answer and what to change; `settings`: the decisions need those of the queues."""
        answers: dict[int, Answer] = {}
        left, repeated = list(range(len(ids))), False
        while left:
            now, seen = self.jobs.read([ids[index] for index in left])
            queues = {one.row.queue for one in seen.values()} if settings else ()
            facts = Facts(now, self.jobs.settings_of(queues) if settings else {}, repeated)
            changing: dict[str, int] = {}
            changes: list[Change] = []
            again: list[int] = []
            otherwise: dict[int, Answer | None] = {}
            for index in left:
                if ids[index] in changing:  # named twice: the second one sees what the first one made of it
                    again.append(index)
                    continue
                found = seen.get(ids[index])
                decision = decide(index, found.row if found else None, facts)
                answers[index] = decision.answer
                if found is not None and decision.row is not None:
                    changing[ids[index]] = index
                    otherwise[index] = decision.otherwise
                    entry = entry_of(found.row, decision.row, decision.counted, decision.opens, now)
                    changes.append(Change(found, decision.row, decision.counted, entry))
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
    """Return the entries of those changes that were made."""
    pairs = zip(changes, results.each, strict=True)
    return [change.entry for change, result in pairs if change.entry and result is Result.DONE]
