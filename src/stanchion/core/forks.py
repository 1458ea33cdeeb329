"""Objects that a fork concerns.

A forked child has only the caller's thread, locks in the state they had, and connections that belong to the
parent. Objects that hold any of these are reset in the child. Where a driver would end the parent's connection as soon
as the child forgets it, the connection is closed before the fork.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks, threads or connections."""

    def begin(self) -> None:
        """Create new locks; forget threads and connections."""


class Closable(Protocol):
    """An object that closes its resources, and opens them again when needed."""

    def close(self) -> None:
        """Close it."""


_live: WeakSet[Forkable] = WeakSet()
_closed_before: WeakSet[Closable] = WeakSet()


def reset_after_fork(thing: Forkable) -> None:
    """Reset `thing`, now and in every forked child."""
    thing.begin()
    _live.add(thing)


def close_before_fork(thing: Closable) -> None:
    """Close `thing` before each fork."""
    _closed_before.add(thing)


def _before() -> None:
    for thing in list(_closed_before):
        thing.close()


def _in_child() -> None:
    for thing in list(_live):
        thing.begin()


os.register_at_fork(before=_before, after_in_child=_in_child)
