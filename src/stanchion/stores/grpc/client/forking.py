"""Forks of a process whose other threads call managers.

gRPC survives a fork only while no other thread is inside its library; else the fork or the child hangs. So a fork

1. lets no call begin until it is over,
2. ends the open streams of this process, which are opened again after it, and
3. waits until the calls under way have returned, for as long as the longest of them takes.

It can't account for the program's independent use of gRPC.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import grpc

_AGAIN_SECONDS = 0.05
"""Pause after which a stream that was only being opened is ended once more."""


class _Stream:
    """An open stream. `end` ends it, from any thread, and may be called again."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.end, self.ended = end, False


class Library:
    """Knows which threads are inside gRPC, and keeps forks and them apart."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: set[int] = set()
        self._streams: dict[int, _Stream] = {}
        self._forks = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Do work inside gRPC; wait while another thread forks."""
        thread = threading.get_ident()
        if thread in self._inside:  # a stream that is ended, or a signal handler that makes a call during another one
            yield
            return
        with self._changed:
            while self._forks:
                self._changed.wait()
            self._inside.add(thread)
        try:
            yield
        finally:
            with self._changed:
                self._inside.discard(thread)
                if self._forks:
                    self._changed.notify_all()

    @contextmanager
    def streaming(self, end: Callable[[], None]) -> Iterator[None]:
        """Open and read a stream. If another thread forks, the block ends as if the stream had ended."""
        stream, thread = _Stream(end), threading.get_ident()
        with self.used():
            self._streams[thread] = stream
            try:
                yield
            except grpc.RpcError:
                if not stream.ended:
                    raise
            finally:
                del self._streams[thread]

    def before_fork(self) -> None:
        """Wait until no other thread is inside."""
        own = {threading.get_ident()}  # a signal handler forks in the middle of a call: waiting would never end
        with self._changed:
            self._forks += 1
        while self._inside - own:
            for thread, stream in list(self._streams.items()):
                if thread not in own:
                    stream.ended = True
                    stream.end()
            with self._changed:
                if self._inside - own:
                    self._changed.wait(_AGAIN_SECONDS)

    def in_parent(self) -> None:
        """Let calls go on."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def in_child(self) -> None:
        """Start with the only thread that is left."""
        own = threading.get_ident()
        self._changed = threading.Condition()
        self._inside &= {own}
        self._streams = {thread: stream for thread, stream in self._streams.items() if thread == own}
        self._forks = 0


LIBRARY = Library()
"""Of this process."""


@cache
def know_forks() -> None:
    """Take part in forks from now on. Call it once gRPC does so, from its first channel on.

    What registers last is asked first: gRPC itself must find no thread inside.
    """
    os.register_at_fork(before=LIBRARY.before_fork, after_in_parent=LIBRARY.in_parent, after_in_child=LIBRARY.in_child)
