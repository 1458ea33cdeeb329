"""A listener that a thread of this process wakes."""

from __future__ import annotations

import threading
from collections.abc import Callable


class EventListener:
    """Waits on an event. A sign stays until a wait takes it, so that none is lost between two waits."""

    def __init__(self, forget: Callable[[EventListener], None]) -> None:
        self._event = threading.Event()
        self._forget = forget

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""
        woken = self._event.wait(timeout)
        # Cleared before the caller looks for work: a sign given from here on ends its next wait.
        self._event.clear()
        return woken

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._event.set()

    def close(self) -> None:
        """Stop listening."""
        self._forget(self)
