"""The heartbeat: one row proves that the worker is alive; the answer lists the jobs to cancel."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from stanchion.context.context import Context
from stanchion.context.steadiness import Steadiness
from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.worker.health import Health
from stanchion.worker.holding import Holding

log = logging.getLogger("stanchion.worker")

QUICK = 1.0
"""Seconds between beats while any job has run for longer than this, so that a cancellation reaches it soon."""


class Heartbeat:
    """One thread that beats from the worker's start to its end, and finally leaves.

    `row()` describes the worker, `longest()` returns the seconds since the oldest running attempt started,
    `answered` gets every answer of the store, `check` is called about every second, `leaving` before it leaves.
    """

    def __init__(
        self,
        context: Context,
        every: float,
        health: Health,
        row: Callable[[], WorkerRow],
        longest: Callable[[], float],
        answered: Callable[[Beat], None],
        check: Callable[[], None],
        leaving: Callable[[], None] = lambda: None,
    ) -> None:
        self._context, self._every, self._health = context, every, health
        self._row, self._longest, self._answered, self._check = row, longest, answered, check
        self._told_to_leave = leaving
        self._stopping, self._sign = threading.Event(), threading.Event()
        self._leaving = False
        self._beating = threading.Lock()
        self._steadiness = Steadiness(every)
        self.holding = Holding(every)
        self._thread = threading.Thread(target=self._run, name="stanchion-heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread; it beats immediately."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while its thread runs."""
        return self._thread.is_alive()

    @property
    def steady(self) -> bool:
        """False during an outage of the store and shortly after, while live workers may look dead."""
        return self._steadiness.steady

    def stop(self, seconds: float, *, leave: bool) -> None:
        """Stop the thread within `seconds`; `leave`: the worker holds no job, so the store may forget it."""
        self._leaving = leave
        self._stopping.set()
        self._sign.set()
        self._thread.join(seconds)

    def soon(self) -> None:
        """Beat immediately: the row has changed in a way that others should know."""
        self._sign.set()

    def _run(self) -> None:
        backoff = Backoff(longest=min(5.0, self._every))
        due = boot_clock()
        pause, spread = 0.0, random.uniform(0.5, 1.0)  # noqa: S311 - workers that start together beat apart
        while True:
            asked = self._sign.wait(pause)
            if self._stopping.is_set():
                break
            self._sign.clear()
            now = boot_clock()
            self._check()
            if asked or now >= due or self._longest() >= QUICK:
                try:
                    self.beat()
                except Exception as error:
                    due, pause = now, backoff.failed()
                    log.warning("the heartbeat failed, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
                    continue
                backoff.succeeded()
                due = now + self._every * spread
                spread = 1.0
            pause = min(QUICK, max(0.0, due - now))
        if self._leaving:
            self._told_to_leave()
            self._leave()

    def beat(self) -> None:
        """Beat now, in the caller's thread: the store has the current row when this returns."""
        with self._beating, self._health.watch("beat"):  # an older row must not overwrite a newer one
            sent_at = boot_clock()
            beat = self._context.store.beat([self._row()])
            self.holding.answered(sent_at)
        self._steadiness.answered()
        self._answered(beat)

    def revive(self) -> None:
        """Beat now if the last answered heartbeat is so old that others may take the jobs of this worker."""
        if self.holding.stale:
            self.beat()

    def _leave(self) -> None:
        try:
            self._context.store.leave(self._row().id)
        except Exception as error:
            log.warning("removing this worker from the store failed: %s", error)
