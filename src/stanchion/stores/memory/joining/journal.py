"""The calls of one transaction: applied to the store when it commits, forgotten when it rolls back.

    call ──► answered by a copy of the store ──► kept in the journal ──commit──► applied, in order, as of their times
                                                        └───────────rollback──► forgotten

The copy has the calls of this transaction applied, so a transaction sees its own jobs, and others do not. It is made
again once others have changed the store, or a savepoint was rolled back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from stanchion.stores.memory.claim import Starts
from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Clock
from stanchion.stores.memory.settle import Outcomes

T = TypeVar("T")


class Writes(NamedTuple):
    """The collaborators of a store whose calls a transaction may take in."""

    starts: Starts
    outcomes: Outcomes
    flows: Flows


Call = Callable[[Writes], object]


class Entry(NamedTuple):
    """One call of a transaction, with the time of the store when it was made."""

    call: Call
    at: int


class Target(Protocol):
    """The store of journals."""

    changes: int
    """The number of calls so far that may have changed the store."""

    def copied(self) -> Writes:
        """Return a copy of the store."""

    def applied(self, call: Callable[[Writes], T], to: Writes, at: int) -> T:
        """Make a call as of a time."""

    def commit(self, entries: list[Entry]) -> None:
        """Apply the calls of a transaction."""


class Journal:
    """The calls of one transaction so far."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.entries: list[Entry] = []
        self._copy: Writes | None = None
        self._copied: tuple[int, list[Entry]] = (-1, [])

    def answer(self, call: Callable[[Writes], T], at: int) -> tuple[T, Entry]:
        """Return the answer of a call within this transaction, and its entry, which the caller adds."""
        copy = self._up_to_date()
        self._copy = None  # if the call fails, it may have changed a part
        answer = self._target.applied(call, copy, at)
        entry = Entry(call, at)
        self._copy, self._copied = copy, (self._target.changes, [*self.entries, entry])
        return answer, entry

    def _up_to_date(self) -> Writes:
        if self._copy is not None and self._copied == (self._target.changes, self.entries):
            return self._copy
        copy = self._target.copied()
        for entry in self.entries:
            self._target.applied(entry.call, copy, entry.at)
        return copy

    def committed(self) -> None:
        """Apply all calls to the store."""
        entries, self.entries = self.entries, []
        if entries:
            self._target.commit(entries)

    def forget(self) -> None:
        """Forget all calls: the transaction was rolled back."""
        self.entries = []


class ReplayClock:
    """A clock that can show another time for the calls of one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._shown = clock, threading.local()

    @property
    def clock_offset(self) -> float:
        """Seconds added to the time."""
        return self._clock.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self._clock.clock_offset = seconds

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        shown: int | None = getattr(self._shown, "at", None)
        return self._clock.now() if shown is None else shown

    def show(self, at: int | None) -> None:
        """Show this time to the present thread from now on; None: the real one."""
        self._shown.at = at
