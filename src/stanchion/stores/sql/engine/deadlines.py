"""A deadline on every call to a server that may never answer."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stanchion.core.concurrency.forks import reset_after_fork

_TICK = 0.25


class Deadlines:
    """Cuts the sockets of overdue calls.

    A client library waits on its socket as long as the connection lives: forever, if the peer has gone silent. Shutting
    the socket down makes the library see a lost connection.

    The `read_timeout` of PyMySQL can't do this. It bounds each wait for bytes, not a call of several statements, which
    a slow server may draw out to any length; and it is one number per connection, while a repeat has less time left.
    Psycopg has none.
    """

    def __init__(self) -> None:
        reset_after_fork(self)

    def begin(self) -> None:
        """Drop all watched calls."""
        self._ends: dict[object, tuple[float, int, list[int]]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def within(self, fileno: int, seconds: float, cut: list[int]) -> Iterator[None]:
        """Cut the socket `fileno` if the block takes longer than `seconds`, and then append it to `cut`."""
        call = object()
        with self._lock:
            self._ends[call] = (time.monotonic() + seconds, fileno, cut)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="stanchion-deadlines", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(call, None)

    def _watch(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(_TICK)
            now = time.monotonic()
            # The lock is held while a socket is cut: its call can't end, so its number can't be reused meanwhile.
            with self._lock:
                for end, fileno, cut in self._ends.values():
                    if end <= now:
                        cut.append(fileno)
                        _cut(fileno)
                if self._ends:
                    idle_since = now
                elif now - idle_since > 60:
                    self._thread = None
                    return


DEADLINES = Deadlines()
"""Those of all databases of this process, watched by one thread: an app that is never closed leaves none of its own."""


def _cut(fileno: int) -> None:
    with suppress(OSError):
        duplicate = socket.socket(fileno=os.dup(fileno))
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        finally:
            duplicate.close()
