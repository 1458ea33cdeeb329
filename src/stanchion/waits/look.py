"""A look at the store that answers several waiters at once."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from threading import Lock
from typing import Any, Protocol

from stanchion.core.backoff import Backoff
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.waiter import Waiter

log = logging.getLogger("stanchion")

BACKING_POLLS = 4
"""So many poll intervals lie between two looks where the signals of other processes arrive: one that gets lost costs
at most that, and never more than the waiter's own time."""

SHARE = 10
"""Looks at very many jobs are so many times as far apart as one takes."""


class Host(Protocol):
    """What waits need of the app. `poll`: seconds between the polls of the whole fleet."""

    @property
    def store(self) -> Store: ...
    @property
    def poll(self) -> float: ...

    def before_claim(self, queue: str) -> None:
        """Do what is due before jobs are claimed from a queue."""


class Keeper(Protocol):
    """What a look needs of the one that keeps it. `heard`: the signs of other processes that are heard now."""

    host: Host
    lock: Lock

    @property
    def heard(self) -> Signs: ...

    def put_back(self, rows: list[JobRow], *, pops: bool) -> None:
        """Give jobs back that were taken for one who waits no more; this call does not wait."""


class Look(ABC):
    """What is asked of the store on behalf of all who wait for the same kind of answer.

        resting ──due, or a sign──► running ──► resting, until `due`

    Fields are guarded by the lock of the `keeper`; `run` is called without it, in one thread at a time.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.running = False
        self.due = 0.0
        """When to look next, on the steady clock."""
        self._backoff = Backoff()
        self._failure: StoreUnavailable | None = None

    @property
    @abstractmethod
    def waiters(self) -> Iterable[Waiter[Any]]:
        """Those who wait, or have left."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many there are of them."""

    @abstractmethod
    def listens_to(self) -> Signs:
        """Return what signs it needs: work in queues; and in `finished`, queues whose jobs' ends it waits for."""

    @abstractmethod
    def signed(self, signs: Signs) -> None:
        """Take note of signs: look soon where they mean its waiters; the lock is held."""

    @abstractmethod
    def ask(self) -> None:
        """Look, answer whom that can, and say when the next look is `due`."""

    @abstractmethod
    def forget_gone(self) -> None:
        """Drop all who wait no more; the lock is held."""

    def closed(self) -> None:
        """End all waits: the app was closed."""
        self._fail_all(
            StoreUnavailable("the app was closed during this wait: close it once nobody waits any more", lasting=True)
        )

    def heard(self) -> None:
        """Look once more, as signs are heard from now on only; the lock is held."""
        self.due = 0.0

    def run(self) -> None:
        """Look, and deal with a store that does not answer: those whose time is over get the error."""
        try:
            self.ask()
        except StoreUnavailable as error:
            if error.lasting:
                self._fail_all(error)
            else:
                self._later(error)
        except Exception as error:
            self._fail_all(error)
        else:
            self._backoff.succeeded()

    def _later(self, error: StoreUnavailable) -> None:
        pause = self._backoff.failed()
        with self.keeper.lock:
            waiting = [one for one in self.waiters if one.waits]
            now = time.monotonic()
            self.due = min([now + pause, *(one.deadline for one in waiting if one.deadline > now)])
        for waiter in waiting:
            if waiter.deadline <= now:
                waiter.fail(error)
        with self.keeper.lock:
            self.forget_gone()
        if any(one.waits for one in waiting):
            log.warning("waiting for the store, next try in %.1f s: %s", max(0.0, self.due - now), error)

    def _fail_all(self, error: Exception) -> None:
        with self.keeper.lock:
            waiting = list(self.waiters)
            self.due = math.inf
        for waiter in waiting:
            waiter.fail(error)
        with self.keeper.lock:
            self.forget_gone()
