"""The scheduler: turns the ticks of the app's schedules into jobs."""

from __future__ import annotations

import logging
import random
import threading
import time

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.cron.ticker import Ticker
from stanchion.stores.records.jobs import SECOND

log = logging.getLogger("stanchion.worker")

LONGEST = 30.0
"""Seconds after which it looks again at the latest: the store's clock may have been set, or a schedule resumed."""

JITTER = 0.2
"""Seconds by which the workers are spread after a tick: the first one fires, the others find that done."""


class Scheduler:
    """One thread that sleeps from tick to tick, by the store's clock.

    All workers have one, and none leads: the store decides whose tick it is.
    """

    def __init__(self, context: Context) -> None:
        self._ticker = Ticker(context)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-scheduler", daemon=True)

    def start(self) -> None:
        """Start the thread; it looks at the schedules at once."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, within `seconds`; what it leaves undone, another scheduler does."""
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                pause = self._look()
                backoff.succeeded()
            except Exception as error:
                pause = backoff.failed()
                log.warning("the schedules wait, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
            if self._stopping.wait(pause):
                return

    def _look(self) -> float:
        """Fire what is due; return the seconds until the next look."""
        began = time.monotonic()
        _, now, look_at = self._ticker.tick()
        left = LONGEST if look_at is None else (look_at - now) / SECOND - (time.monotonic() - began)
        return max(0.0, min(left, LONGEST)) + random.uniform(0, JITTER)  # noqa: S311 - spreading load
