"""Time-outs: interrupt attempts that run too long, give up those that do not stop.

running ──deadline──► expired ──STOP_SECONDS_MAX──► given up
   └────────lifted───────┴──► over
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

from stanchion.errors import TaskTimeout
from stanchion.worker.attempt import Attempt, Limit, Running

STOP_SECONDS_MAX = 3.0
"""Seconds that an interrupted attempt gets to stop."""

TICK = 0.1
"""Seconds within which a new, shorter limit is noticed."""

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING = ctypes.py_object()


class Timeouts:
    """Watches the running attempts that have a limit.

    `give_up(slot, attempt)` is called for one that does not stop within STOP_SECONDS_MAX of its interrupt.
    """

    def __init__(self, running: Running, give_up: Callable[[int, Attempt], None]) -> None:
        self._running, self._give_up = running, give_up
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def call(self, attempt: Attempt, seconds: float, begin: Callable[[], None]) -> object:
        """Run a sync attempt in this thread; raise TaskTimeout in it after `seconds`.

        `begin` registers the attempt as running. From then on the interrupt can arrive between any two steps, so
        each step is inside a `try` until the limit is lifted.
        """
        thread = threading.get_ident()
        limit = attempt.limit = Limit(seconds, lambda: _raise_in_thread(thread, TaskTimeout))
        try:
            try:
                begin()
                self.watch()
                return attempt.call()
            finally:
                self._lift_here(limit, thread)
        except TaskTimeout:
            self._lift_here(limit, thread)  # the interrupt may have arrived during the first call
            raise

    def _lift_here(self, limit: Limit, thread: int) -> None:
        self.lift(limit)
        if limit.expired:
            _raise_in_thread(thread, _NOTHING)  # withdraw an interrupt that has not arrived yet

    def lift(self, limit: Limit) -> None:
        """End a limit: no interrupt comes after this."""
        with self._lock:
            limit.over = True

    def watch(self) -> None:
        """Start watching a limited attempt that was just registered as running."""
        self._wanted.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._watch, name="stanchion-timeouts", daemon=True)
                    self._thread.start()

    def stop(self) -> None:
        """Enforce no limit from here on."""
        self._stopping = True
        self._wanted.set()

    def _watch(self) -> None:
        while not self._stopping:
            self._wanted.wait()
            self._wanted.clear()
            while (pause := self._check()) is not None:
                time.sleep(pause)

    def _check(self) -> float | None:
        """Interrupt or give up late attempts; return the seconds until the next check, None if nothing has a limit."""
        pause = None
        if self._stopping:
            return None
        for slot, attempt in self._running.copy().items():
            limit = attempt.limit
            if limit is None or limit.over:
                continue
            left = limit.deadline - time.monotonic()
            if left <= 0:
                self._late(slot, attempt, limit)
                left = TICK
            pause = min(left, TICK, pause or TICK)
        return pause

    def _late(self, slot: int, attempt: Attempt, limit: Limit) -> None:
        if limit.expired:
            self._give_up(slot, attempt)
            return
        with self._lock:
            if not limit.over:
                limit.expired = True
                limit.deadline = time.monotonic() + STOP_SECONDS_MAX
                limit.interrupt()
