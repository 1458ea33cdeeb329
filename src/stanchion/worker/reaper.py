"""The reaper: gives back the jobs of workers that died, and keeps the store small."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stanchion.errors import LeaseLost
from stanchion.job import JobState
from stanchion.stores.losses import lost_leases
from stanchion.stores.records import JobRow

if TYPE_CHECKING:
    from stanchion.app import Stanchion

log = logging.getLogger("stanchion.worker")

MAINTAIN_EVERY = 10.0


class Reaper:
    """One thread that recovers and sweeps every `every` seconds, and maintains about every ten.

    It stores declared semaphores again that the store has lost.

    All workers do, at their own pace: what one has done costs the others next to nothing. Nothing is taken
    back unless `steady()`: after an outage of the store the others, too, need time to show that they live.
    A recovery that an outage holds up judges as of a moment before it: the clock is read, then comes the question.
    """

    def __init__(self, app: Stanchion, every: float, steady: Callable[[], bool]) -> None:
        self._app, self._every, self._steady = app, every, steady
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-reaper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the call that is under way."""
        self._stopping.set()

    def _run(self) -> None:
        maintained_at = time.monotonic()
        while not self._stopping.wait(self._every * random.uniform(0.8, 1.2)):  # noqa: S311 - spreading load
            try:
                as_of = self._app.store.now()
                if self._steady():
                    self._recover(as_of)
                self._app.store_semaphores().sweep()
                if time.monotonic() - maintained_at >= MAINTAIN_EVERY:
                    maintained_at = time.monotonic()
                    self._app.store.maintain()
                    self._app.keep_declared()
            except Exception as error:
                log.warning("looking after the store failed: %s: %s", type(error).__name__, error)

    def _recover(self, as_of: int) -> None:
        while not self._stopping.is_set() and (rows := self._app.store.recover(as_of=as_of)):
            log.warning("took back %d jobs from workers that are gone or leases that ran out", len(rows))
            if self._app.events.hears("dead"):
                for row in filter(_ended_dead, rows):
                    self._app.events.fire("dead", self._app.job_of(row), LeaseLost(row.id))


def _ended_dead(row: JobRow) -> bool:
    """Tell a job that died, or became a dead letter, which no lost lease is held against, from one that waits again."""
    return row.state == JobState.DEAD or (row.finished_at is None and not lost_leases(row))
