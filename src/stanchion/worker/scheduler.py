"""The scheduler: turns the ticks of the app's schedules into jobs."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.cron.ticker import Ticker
from stanchion.stores.records.jobs import SECOND

log = logging.getLogger("stanchion.worker")

PAUSE_SECONDS_MAX, PAUSE_WORKERS_MAX = 30.0, 3
"""Maximum seconds between two checks by one worker, as the store's clock may be set or a schedule resumed; and the
number of workers up to which they share these checks. A schedule unchecked for three minutes is orphaned."""

JITTER = 0.2
"""Seconds over which the workers spread after a tick: the first one fires it, the others find it fired."""


class Scheduler:
    """One thread that sleeps from tick to tick, by the store's clock.

    Every worker has one and there is no leader: compare-and-set in the store decides which worker fires a tick. Each
    checks the schedules at each tick; between ticks that are far apart, a fleet takes turns.
    """

    def __init__(self, context: Context, fleet: Callable[[], int] = lambda: 1) -> None:
        """`fleet`: the number of live workers."""
        self._ticker, self._fleet = Ticker(context), fleet
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-scheduler", daemon=True)

    def start(self) -> None:
        """Start the thread; it checks the schedules immediately."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop the thread within `seconds`; other schedulers fire the rest."""
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                pause = self._tick()
                backoff.succeeded()
            except Exception as error:
                pause = backoff.failed()
                log.warning("the schedules wait, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
            if self._stopping.wait(pause):
                return

    def _tick(self) -> float:
        """Fire due schedules; return the seconds until the next check."""
        began = time.monotonic()
        _, now, next_tick = self._ticker.tick()
        sharing = min(self._fleet(), PAUSE_WORKERS_MAX)
        longest = PAUSE_SECONDS_MAX
        if sharing > 1:
            longest *= random.uniform(1.0, 2 * sharing - 1)  # noqa: S311 - spreading load
        left = longest if next_tick is None else (next_tick - now) / SECOND - (time.monotonic() - began)
        return max(0.0, min(left, longest)) + random.uniform(0, JITTER)  # noqa: S311 - spreading load
