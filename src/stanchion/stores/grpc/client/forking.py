"""Forks of a process whose other threads call managers.

gRPC survives a fork only while no other thread is inside its library; else the fork or the child hangs. So a fork waits
until the calls of this process have returned, for as long as the longest of them takes, and calls that begin meanwhile
wait until it is over. A stream is inside only while it is opened or ended: one that is open delays no fork. What the
program does with gRPC by itself is not known here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Library:
    """Knows which threads are inside gRPC, and keeps forks and them apart."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: set[int] = set()
        self._forks = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Do what is inside gRPC; wait while another thread forks."""
        thread = threading.get_ident()
        if thread in self._inside:  # a signal has interrupted a call of this thread, and its handler makes another
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

    def before_fork(self) -> None:
        """Wait until no other thread is inside."""
        own = {threading.get_ident()}  # a signal handler forks in the middle of a call: waiting would never end
        with self._changed:
            self._forks += 1
            while self._inside - own:
                self._changed.wait()

    def in_parent(self) -> None:
        """Let calls go on."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def in_child(self) -> None:
        """Start with the only thread that is left."""
        self._changed = threading.Condition()
        self._inside &= {threading.get_ident()}
        self._forks = 0


LIBRARY = Library()
"""Of this process."""

os.register_at_fork(before=LIBRARY.before_fork, after_in_parent=LIBRARY.in_parent, after_in_child=LIBRARY.in_child)
