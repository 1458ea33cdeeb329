"""The heartbeat: one row that proves the worker alive, and the answer that says what to cancel."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.worker.health import Health

log = logging.getLogger("stanchion.worker")

QUICK = 1.0
"""Seconds between beats while a job has been running for longer than this: somebody may want it cancelled."""

MISSED = 3
"""After so many heartbeats without a beat the store takes a worker for dead."""

LATE = 2
"""After so many heartbeats without a beat something is wrong with the store, or with this worker."""

RETURN = 6.0
"""Seconds within which every live worker beats again, at the least, once the store is back."""


class Heartbeat:
    """One thread that beats from the start to the end of a worker, and leaves at last.

    `row()` describes the worker, `longest()` is for how many seconds the oldest attempt has been running,
    `answered` gets every answer of the store, `look` is called about every second.
    """

    def __init__(
        self,
        context: Context,
        every: float,
        health: Health,
        row: Callable[[], WorkerRow],
        longest: Callable[[], float],
        answered: Callable[[Beat], None],
        look: Callable[[], None],
    ) -> None:
        self._context, self._every, self._health = context, every, health
        self._row, self._longest, self._answered, self._look = row, longest, answered, look
        self._stopping = threading.Event()
        self._leaving = False
        self._beating = threading.Lock()
        self._beat_at = -math.inf
        self._steady_from = 0.0
        self._thread = threading.Thread(target=self._run, name="stanchion-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread; the first beat comes at once."""
        self._thread.start()

    @property
    def steady(self) -> bool:
        """False while the store was out of reach for so long, or so lately, that live workers look dead to it.

        Of the time before its own start a worker knows nothing, so it begins as after an outage.
        """
        now = time.monotonic()
        return now >= self._steady_from and now - self._beat_at < LATE * self._every

    def stop(self, seconds: float, *, leave: bool) -> None:
        """End the thread within `seconds`; `leave`: the worker holds no job, so the store may forget it."""
        self._leaving = leave
        self._stopping.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        backoff = Backoff(longest=min(5.0, self._every))
        due = time.monotonic()
        pause = 0.0
        while not self._stopping.wait(pause):
            now = time.monotonic()
            self._look()
            if now >= due or self._longest() >= QUICK:
                try:
                    self.beat()
                except Exception as error:
                    due, pause = now, backoff.failed()
                    log.warning("the heartbeat failed, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
                    continue
                backoff.succeeded()
                due = now + self._every
            pause = min(QUICK, max(0.0, due - now))
        if self._leaving:
            self._leave()

    def beat(self) -> None:
        """Beat now, in the caller's thread: what the row says by now is known to the store when this returns."""
        with self._beating, self._health.watch("beat"):  # a row that was described earlier must not come later
            beat = self._context.store.beat([self._row()])
        now = time.monotonic()
        if now - self._beat_at >= LATE * self._every:
            self._steady_from = now + max(MISSED * self._every, RETURN)
        self._beat_at = now
        self._answered(beat)

    def _leave(self) -> None:
        try:
            self._context.store.leave(self._row().id)
        except Exception as error:
            log.warning("the store could not be told that this worker left: %s", error)
