"""Health: whether a worker reaches its store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Health:
    """The results of one worker's store calls.

    Red while the last call of any kind failed, or if none has succeeded for `silence` seconds.
    """

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}
        self._succeeded_at = time.monotonic()
        self._stopped = False

    @contextmanager
    def watch(self, kind: str) -> Iterator[None]:
        """Record whether a call of this kind succeeds."""
        try:
            yield
        except Exception as error:
            self.failed(kind, error)
            raise
        self.succeeded(kind)

    def failed(self, kind: str, error: Exception) -> None:
        """Record the failure of a call."""
        with self._lock:
            self._failing[kind] = f"{type(error).__name__}: {error}"

    def succeeded(self, kind: str) -> None:
        """Record that a call of this kind has succeeded."""
        self._succeeded_at = time.monotonic()
        if self._failing:
            with self._lock:
                self._failing.pop(kind, None)

    def stopped(self) -> None:
        """Mark the worker as stopped."""
        self._stopped = True

    def trouble(self) -> str | None:
        """Return the problem, or None."""
        if self._stopped:
            return "stopped"
        with self._lock:
            for kind, error in self._failing.items():
                return f"{kind}: {error}"
        silent = time.monotonic() - self._succeeded_at
        return f"no answer from the store for {silent:.0f} s" if silent > self._silence else None
