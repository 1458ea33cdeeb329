"""The reaper: gives back the jobs of dead workers, and removes expired history."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from stanchion.context.upkeep import Host, Lag, Upkeep
from stanchion.errors import StanchionError
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.telemetry import rollups

log = logging.getLogger("stanchion.worker")

MAINTAIN_EVERY = 10.0

ROLL_EVERY, ROLL_SHARE = 60.0, 200.0
"""Seconds between two readings of the figures that plots show later, and a multiple of the time that one takes."""


class ReaperHost(Host, Protocol):
    """What a reaper needs of the app."""

    @property
    def upkeep(self) -> Upkeep: ...

    def keep_declared(self) -> None:
        """Check from time to time that declared settings are still stored."""


class Reaper:
    """One thread that recovers lost jobs every `every` seconds, and maintains the store about every ten.

    It also restores declared semaphores that the store has lost. Every worker and manager has one: work that one has
    done costs the others next to nothing. Jobs are taken back only while `steady()`: after an outage of the store, live
    workers need time to beat again. The clock is read before each recovery, so that an outage during the call does not
    make live workers look dead. If purging falls behind, the next round starts at once.
    """

    def __init__(
        self,
        context: ReaperHost,
        every: float,
        steady: Callable[[], bool],
        lost: Callable[[Sequence[JobRow]], None] | None = None,
    ) -> None:
        """`lost`: is told of jobs that were taken back."""
        self._context, self._every, self._steady, self._lost = context, every, steady, lost
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-reaper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the call in progress."""
        self._stopping.set()

    def _run(self) -> None:
        maintained_at = time.monotonic()
        behind = False
        lag = Lag()
        roll_at = maintained_at
        while not self._stopping.wait(0 if behind else self._every * random.uniform(0.8, 1.2)):  # noqa: S311 - spreading load
            try:
                store = self._context.store_semaphores()
                as_of = store.now()
                self._context.upkeep.recover(
                    store, as_of if self._steady() else None, lambda: not self._stopping.is_set(), self._lost
                )
                if behind or time.monotonic() - maintained_at >= MAINTAIN_EVERY:
                    maintained_at = time.monotonic()
                    left = store.maintain()
                    lag.warn(left)
                    behind = bool(left)
                    self._context.keep_declared()
                    self._context.notice_partitions()
                if time.monotonic() >= roll_at:
                    roll_at = time.monotonic() + _roll(store)
            except Exception as error:
                behind = False
                if not self._stopping.is_set():
                    log.warning("maintaining the store failed: %s: %s", type(error).__name__, error)


def _roll(store: Store) -> float:
    """Keep the figures of this minute for plots; return the seconds until the next time."""
    began = time.monotonic()
    try:
        rollups.take(store)
    except StanchionError as error:  # as where a token is limited to some queues
        log.debug("the figures of this minute are not kept: %s", error)
    return max(ROLL_EVERY, ROLL_SHARE * (time.monotonic() - began))
