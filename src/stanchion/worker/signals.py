"""SIGTERM and SIGINT as calls to stop, for a main thread that waits for them."""

from __future__ import annotations

import signal
import threading
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Self


class Calls:
    """What wakes a thread that waits: signals, while this is entered in the main thread, and calls of `wake`."""

    def __init__(self) -> None:
        # A SimpleQueue, because a handler may use it in the midst of anything, which is not true of an Event.
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._before: dict[int, Any] = {}
        self.signals = 0
        """How many signals came; the first asks for a stop within the grace, the second for one at once."""

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._woken.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait; return whether there was a call."""
        try:
            self._woken.get(timeout=seconds)
        except Empty:
            return False
        return True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.signals += 1
        self.wake()
