"""A poll of the store that serves several waiters."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from threading import Lock
from typing import Any, Protocol

from stanchion.core.backoff import Backoff
from stanchion.core.concurrency.blocking import BlockingCalls
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.lost_replies import LostClaims
from stanchion.waits.waiter import Waiter

log = logging.getLogger("stanchion")

BACKUP_POLLS = 4
"""Poll intervals between two polls while signals arrive. A lost signal costs at most that, or the waiter's time-out."""

SPACING = 10
"""Polls for very many jobs are this many times as far apart as one takes."""


class Host(Protocol):
    """What waiting needs of the app. `poll`: seconds between polls of the whole fleet."""

    blocking: BlockingCalls

    @property
    def store(self) -> Store: ...
    @property
    def poll(self) -> float: ...

    def before_claim(self, queue: str) -> None:
        """Prepare a claim from a queue: called before each."""

    def answered(self) -> None:
        """Take in that the store has just answered a claim."""


class Coordinator(Protocol):
    """The coordinator as a poll sees it. `heard`: signals from other processes arrive now."""

    host: Host
    lock: Lock
    lost_claims: LostClaims

    @property
    def heard(self) -> Signs: ...

    def put_back(self, rows: list[JobRow], *, pops: bool) -> None:
        """Return jobs reserved for a waiter that is gone. Does not block."""


class Poll(ABC):
    """Reads the store on behalf of all waiters for the same kind of answer.

        resting ──due, or a sign──► running ──► resting, until `due`

    The coordinator's lock guards the fields. `run` is called without it, in one thread at a time.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.running = False
        self.due = 0.0
        """When to poll next, on the monotonic clock."""
        self._backoff = Backoff()
        self._failure: StoreUnavailable | None = None

    @property
    @abstractmethod
    def waiters(self) -> Iterable[Waiter[Any]]:
        """All waiters, including ones that have left."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of keys or requests waited for."""

    @abstractmethod
    def listens_to(self) -> Signs:
        """Return the signs it needs: `queues` with work, and queues whose `finished` jobs it waits for."""

    @abstractmethod
    def signed(self, signs: Signs) -> None:
        """Handle signs: poll soon if they concern its waiters. The caller holds the lock."""

    @abstractmethod
    def ask(self) -> None:
        """Read the store, answer the waiters it can, and set `due`."""

    @abstractmethod
    def forget_gone(self) -> None:
        """Drop all waiters that are gone. The caller holds the lock."""

    def ended(self) -> None:  # noqa: B027 - most polls leave nothing behind
        """It has no more waiters, and is dropped. The caller holds the lock."""

    def closed(self) -> None:
        """End all waits: the app was closed."""
        self._fail_all(
            StoreUnavailable("the app was closed during this wait: close it once no call waits any more", lasting=True)
        )

    def heard(self) -> None:
        """Poll once more, as earlier signs were not heard. The caller holds the lock."""
        self.due = 0.0

    def run(self) -> None:
        """Poll. If the store does not answer, retry later; waiters past their deadline get the error."""
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
        with self.coordinator.lock:
            waiting = [one for one in self.waiters if one.waits]
            now = time.monotonic()
            self.due = min([now + pause, *(one.deadline for one in waiting if one.deadline > now)])
        for waiter in waiting:
            if waiter.deadline <= now:
                waiter.fail(error)
        with self.coordinator.lock:
            self.forget_gone()
        if any(one.waits for one in waiting):
            log.warning("waiting for the store, next try in %.1f s: %s", max(0.0, self.due - now), error)

    def _fail_all(self, error: Exception) -> None:
        with self.coordinator.lock:
            waiting = list(self.waiters)
            self.due = math.inf
        for waiter in waiting:
            waiter.fail(error)
        with self.coordinator.lock:
            self.forget_gone()
