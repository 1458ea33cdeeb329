"""The reaper: gives back the jobs of workers that died, and keeps the store small."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.context.upkeep import Lag

log = logging.getLogger("stanchion.worker")

MAINTAIN_EVERY = 10.0


class Reaper:
    """One thread that recovers every `every` seconds, and maintains about every ten.

    It stores declared semaphores again that the store has lost.

    All workers do, at their own pace: what one has done costs the others next to nothing. Nothing is taken
    back unless `steady()`: after an outage of the store the others, too, need time to show that they live.
    Where the purge lags behind, it goes on at once.
    A recovery that an outage holds up judges as of a moment before it: the clock is read, then comes the question.
    """

    def __init__(self, context: Context, every: float, steady: Callable[[], bool]) -> None:
        self._context, self._every, self._steady = context, every, steady
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
        behind = False
        lag = Lag()
        while not self._stopping.wait(0 if behind else self._every * random.uniform(0.8, 1.2)):  # noqa: S311 - spreading load
            try:
                store = self._context.store_semaphores()
                as_of = store.now()
                self._context.upkeep.recover(
                    store, as_of if self._steady() else None, lambda: not self._stopping.is_set()
                )
                if behind or time.monotonic() - maintained_at >= MAINTAIN_EVERY:
                    maintained_at = time.monotonic()
                    left = store.maintain()
                    lag.note(left)
                    behind = bool(left)
                    self._context.keep_declared()
            except Exception as error:
                behind = False
                log.warning("looking after the store failed: %s: %s", type(error).__name__, error)
