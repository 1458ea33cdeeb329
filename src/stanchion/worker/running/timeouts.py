"""Time-outs: interrupt overdue attempts, abandon the ones that do not stop.

running ──deadline──► expired ──STOP_SECONDS_MAX──► abandoned
   │                   └─swallowed─┘ interrupted again
   └────────lifted───────┴──► over
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from weakref import ref

from stanchion.errors import TaskInterrupted
from stanchion.worker.running.attempt import AnyAttempt, Limit, Running

STOP_SECONDS_MAX = 3.0
"""Seconds that an interrupted attempt gets to stop. An async one is cancelled again from half of them on."""

TICK = 0.1
"""Seconds within which a new, shorter limit is noticed."""

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING = ctypes.py_object()


class Interruption:
    """The exception that interrupts a thread.

    The task has swallowed it if the thread no longer handles it, as a `finally` that cleans up does, and still runs.
    That it exists is no sign: the task may keep it, and so may a `sys.unraisablehook`, after a callback of a weak
    reference that it met.
    """

    def __init__(self, thread: int, seconds: float) -> None:
        self._thread, self._seconds = thread, seconds
        self._raised: ref[TaskInterrupted] | None = None

    def send(self) -> None:
        """Raise it in the thread, at its next step in Python."""

        interruption, text = self, f"ran longer than {self._seconds:g} s"

        class Interrupted(TaskInterrupted):
            def __init__(self) -> None:
                super().__init__(text)
                interruption._raised = ref(self)

        Interrupted.__name__ = Interrupted.__qualname__ = TaskInterrupted.__name__
        Interrupted.__module__ = TaskInterrupted.__module__
        _raise_in_thread(self._thread, Interrupted)

    def was_swallowed(self, _seconds: float) -> bool:
        """Return whether the task has caught it, and continues."""
        if self._raised is None:
            return False
        raised = self._raised()
        return not any(error is raised for error in _handled_in(self._thread))


def _handled_in(thread: int) -> Iterator[BaseException]:
    """Yield the exception that a thread handles, the one that was handled when it came, and so on."""
    found = sys._current_exceptions().get(thread)
    error = found[1] if isinstance(found, tuple) else found  # a tuple up to Python 3.11
    while error is not None:
        yield error
        error = error.__context__


def half_way(seconds: float) -> bool:
    """Return whether an attempt has had half of the time to stop."""
    return seconds >= STOP_SECONDS_MAX / 2


class Timeouts:
    """Watches the running attempts that have a limit.

    `give_up(slot, attempt)` is called for one that does not stop within STOP_SECONDS_MAX of its interrupt.
    """

    def __init__(self, running: Running, give_up: Callable[[int, AnyAttempt], None]) -> None:
        self._running, self._give_up = running, give_up
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def call(self, attempt: AnyAttempt, seconds: float, begin: Callable[[], None]) -> object:
        """Run a sync attempt in this thread; raise TaskInterrupted in it after `seconds`.

        `begin` registers the attempt as running. From then on the interrupt can arrive between any two steps, so
        each step is inside a `try` until the limit is lifted.
        """
        thread = threading.get_ident()
        interruption = Interruption(thread, seconds)
        limit = attempt.limit = Limit(seconds, interruption.send, interruption.was_swallowed)
        try:
            try:
                begin()
                self.watch()
                return attempt.call()
            finally:
                self._lift_here(limit, thread)
        except TaskInterrupted:
            self._lift_here(limit, thread)  # the interrupt may have arrived during the first call
            raise

    def _lift_here(self, limit: Limit, thread: int) -> None:
        self.lift(limit)
        if limit.expired:
            _raise_in_thread(thread, _NOTHING)  # withdraw an interrupt that has not arrived yet

    def lift(self, limit: Limit) -> None:
        """End a limit: there is no interrupt after this."""
        with limit.lock:
            limit.over = True

    def watch(self) -> None:
        """Start watching a limited attempt that was just registered as running."""
        if not self._wanted.is_set():  # once it is set, the thread has yet to look at the running attempts
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
        """Interrupt or abandon late attempts; return the seconds until the next check, None without limits."""
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
            elif limit.expired:
                self._interrupt_again(limit, STOP_SECONDS_MAX - left)
            pause = min(left, TICK, pause or TICK)
        return pause

    def _late(self, slot: int, attempt: AnyAttempt, limit: Limit) -> None:
        if limit.expired:
            self._give_up(slot, attempt)
            return
        with limit.lock:
            if not limit.over:
                limit.expired = True
                limit.deadline = time.monotonic() + STOP_SECONDS_MAX
                limit.interrupt()

    def _interrupt_again(self, limit: Limit, seconds: float) -> None:
        with limit.lock:
            if not limit.over and limit.again(seconds):
                limit.interrupt()
