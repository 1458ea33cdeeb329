"""Waiting for signs themselves, again and again."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from stanchion.errors import StoreUnavailable
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs
from stanchion.waits.poll import Coordinator, Poll
from stanchion.waits.waiter import Waiter


class Subscription(Poll):
    """Wait for signals of some queues until closed; a signal between two waits ends the second one immediately.

    It reads nothing: `ask` only answers waiters whose time is over.
    """

    def __init__(self, coordinator: Coordinator, wanted: Signs) -> None:
        super().__init__(coordinator)
        self.due = math.inf
        self._wanted = wanted
        self._waiters: list[Waiter[bool]] = []
        self._signed, self._open, self._ended = False, True, False

    @property
    def waiters(self) -> Iterable[Waiter[bool]]:
        return self._waiters

    def __len__(self) -> int:
        return int(self._open)

    def close(self) -> None:
        """Stop listening."""
        self._open, self.due = False, 0.0

    def want(self, wanted: Signs) -> None:
        """Listen to these signs from now on, instead of those before."""
        self._wanted = wanted

    @property
    def hears(self) -> bool:
        """True while signs of all its queues arrive from other processes, as far as is known."""
        heard, wanted = self.coordinator.heard, self._wanted
        return wanted != NO_SIGNS and all(
            mine is not None and mine <= (theirs or frozenset()) for mine, theirs in zip(wanted, heard, strict=True)
        )

    def add(self, waiter: Waiter[bool]) -> None:
        """Add a waiter, which gets True for a sign, False at its deadline. The caller holds the lock."""
        if self._ended:
            waiter.fail(_ended())
        elif self._signed:
            self._signed = False
            waiter.deliver(True)
        else:
            self._waiters.append(waiter)
            self.due = min(self.due, waiter.deadline)

    def forget_gone(self) -> None:
        self._waiters = [waiter for waiter in self._waiters if waiter.waits]

    def listens_to(self) -> Signs:
        return self._wanted

    def signed(self, signs: Signs) -> None:
        work = signs.queues is None or not signs.queues.isdisjoint(self._wanted.queues or ())
        ends = bool(self._wanted.finished) and (signs.finished is None or bool(signs.finished))
        if work or ends:
            self.heard()

    def heard(self) -> None:
        waiting, self._waiters = self._waiters, []
        self._signed = not [waiter for waiter in waiting if waiter.deliver(True)]

    def ask(self) -> None:
        now = time.monotonic()
        with self.coordinator.lock:
            late = [waiter for waiter in self._waiters if waiter.deadline <= now]
            self._waiters = [waiter for waiter in self._waiters if waiter.deadline > now and waiter.waits]
            self.due = min((waiter.deadline for waiter in self._waiters), default=math.inf)
        for waiter in late:
            waiter.deliver(False)

    def closed(self) -> None:
        self._ended = True
        super().closed()


def _ended() -> StoreUnavailable:
    return StoreUnavailable("the app was closed during this wait: close it once no call waits any more", lasting=True)
