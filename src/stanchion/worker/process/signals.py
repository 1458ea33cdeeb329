"""Signals as requests to stop, for a main thread that waits for them."""

from __future__ import annotations

import signal
import threading
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Self

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
"""Signals that end a process which serves: SIGHUP comes when its terminal closes, SIGQUIT from Ctrl-\\."""


def stopping_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop this process, without SIGHUP under `nohup`, which ignores it."""
    return tuple(one for one in STOPPING if one.name != "SIGHUP" or signal.getsignal(one) is not signal.SIG_IGN)


class Calls:
    """Wakes a waiting thread: by signals, while this is entered in the main thread, and by calls of `wake`."""

    def __init__(self) -> None:
        # A SimpleQueue is reentrant, so a signal handler may use it at any time. An Event is not.
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._before: dict[int, Any] = {}
        self.signals = 0
        """Signals received: the first asks for a stop within the grace period, the second for an immediate one."""

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._woken.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether it was woken."""
        try:
            self._woken.get(timeout=seconds)
        except Empty:
            return False
        return True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in stopping_signals():
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
