"""Outcomes one by one, where a call with all of them has failed: a bad one must not hold up the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from threading import Event
from typing import Final, Generic, NamedTuple, TypeVar

from stanchion.core.ids import new_id, new_token
from stanchion.errors import InvalidInput, NotPermitted
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Commit, Outcome, Rollback

T = TypeVar("T")

DATA: Final = (InvalidInput, UnicodeError)
"""Errors of the data: the store can't hold such an outcome, however often it is asked."""

MISSES_MAX: Final = 3
"""Outcomes in a row that fail, though the store takes others, after which a round ends: each takes as long as a call
may."""


class Left(NamedTuple, Generic[T]):
    """The outcomes that are not stored yet, in the order of trying them again."""

    group: list[T]
    at_fault: bool
    """The store takes other outcomes, so it is not away: these are at fault, or something has locked their jobs."""


class OneByOne(Generic[T]):
    """Stores a group of outcomes by smaller calls.

    `settle(group)` stores outcomes that an earlier call may have stored, and reports on them. `of(item)`: the outcome
    of an item, None for a job that has settled itself. `takes(outcome)`: whether the store takes such outcomes of a
    queue now. `refused(item, error)`: records that the store can't hold an outcome; False: try it again. No more
    outcomes are tried once `aborted` is set.
    """

    def __init__(
        self,
        settle: Callable[[Sequence[T]], object],
        of: Callable[[T], Outcome | None],
        takes: Callable[[Outcome], bool],
        refused: Callable[[T, Exception], bool],
        aborted: Event,
    ) -> None:
        self._settle, self._of, self._takes, self._refused, self._aborted = settle, of, takes, refused, aborted

    def store(self, group: Sequence[T], error: Exception) -> Left[T]:
        """Store as many as possible; `error`: the error of a call with the whole group.

        Only an outcome that the store can't hold is refused, or one that a token may not report though it may report
        others, such as a move to a queue of others. One that fails by any other error, whatever it is, is left as it
        is: the job would run again although it is done.
        """
        missed: list[T] = []
        away: set[str] = set()
        at_fault, misses = False, 0
        parts = deque(_split(group, error))
        while parts:
            if self._aborted.is_set() or misses == MISSES_MAX:
                return Left([*chain(*parts), *missed], at_fault)
            part = parts.popleft()
            item, outcome = part[0], self._of(part[0])
            if len(part) == 1 and outcome is not None and outcome.lease.queue in away:
                missed.append(item)
            elif (failure := self._failed(part)) is None:
                at_fault, misses = True, 0
            elif len(part) > 1:
                parts.extendleft(reversed(_split(part, failure)))
            elif isinstance(failure, DATA) or self._forbids(outcome, failure):
                at_fault, misses = True, 0
                if not self._refused(item, failure):
                    missed.append(item)
            elif outcome is None or self._takes(outcome):
                at_fault, misses = True, misses + 1
                missed.append(item)
            else:
                away.add(outcome.lease.queue)
                missed.append(item)
        return Left(missed, at_fault)

    def _forbids(self, outcome: Outcome | None, failure: Exception) -> bool:
        return outcome is not None and isinstance(failure, NotPermitted) and self._takes(outcome)

    def _failed(self, part: Sequence[T]) -> Exception | None:
        try:
            self._settle(part)
        except Exception as error:
            return error
        return None


def _split(group: Sequence[T], error: Exception) -> list[Sequence[T]]:
    """Split a group that has failed: in halves around an outcome that can't be stored, else into single ones.

    A locked job lets each call that has it wait as long as a call may.
    """
    if isinstance(error, DATA) and len(group) > 1:
        return [group[: len(group) // 2], group[len(group) // 2 :]]
    return [[one] for one in group]


def takes(store: Callable[[], Store], outcome: Outcome) -> bool:
    """Return whether a store takes such outcomes of a queue now, by one that changes nothing: there is no such job.

    A commit needs history, which may be locked alone.
    """
    lease = Lease(outcome.lease.queue, new_id(), new_token())
    try:
        store().settle([Commit(lease) if isinstance(outcome, Commit) else Rollback(lease, 0.0)])
    except Exception:
        return False
    return True
