"""Work for a separate thread, so that no caller waits for it while it blocks, such as a write to a full pipe."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from stanchion.core.concurrency.forks import reset_after_fork

T = TypeVar("T")

_TICK: Final = 0.005


class Background(Generic[T]):
    """Passes items to `consume` in one daemon thread, in order; drops further ones while `most` of them wait.

    `put` never blocks, and may be called from a signal handler or a finalizer. `consume` must raise nothing.
    """

    def __init__(self, name: str, consume: Callable[[T], object], most: int) -> None:
        self._name, self._consume, self._most = name, consume, most
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without thread and items."""
        self._items: SimpleQueue[tuple[T, int] | None] = SimpleQueue()
        self._lock = threading.RLock()  # reentrant: a finalizer may log while this thread is in `put`
        self._thread: threading.Thread | None = None
        self._put = self._consumed = self._dropped = 0
        self._closed = False

    def put(self, item: T, size: int = 1) -> bool:
        """Hand over an item that takes `size` of the room; return False if it was dropped, as there is no room or
        this is closed."""
        with self._lock:
            if self._closed or self._put - self._consumed >= self._most or not self._started():
                self._dropped += 1
                return False
            self._put += size
            self._items.put((item, size))
            return True

    def take_dropped(self) -> int:
        """Return how many items were dropped since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def drain(self, seconds: float) -> bool:
        """Wait up to `seconds` until all items are consumed; return whether they are."""
        deadline = time.monotonic() + seconds
        while self._consumed < self._put:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_TICK)
        return True

    def close(self, seconds: float) -> bool:
        """Take no further items, and end the thread once all are consumed; return whether they are within `seconds`."""
        with self._lock:
            self._closed = True
            if self._thread is not None:
                self._items.put(None)
        return self.drain(seconds)

    def _started(self) -> bool:
        """Start the thread unless it runs; return False where no more threads can be started, as at exit."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, args=(self._items,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self, items: SimpleQueue[tuple[T, int] | None]) -> None:
        while given := items.get():
            item, size = given
            self._consume(item)
            del given, item  # an idle thread keeps nothing alive
            self._consumed += size
