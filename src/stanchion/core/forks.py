"""Resetting objects in a forked child.

A forked child has only the caller's thread, locks in the state they had, and connections that belong to the
parent. Objects that hold any of these are reset in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks, threads or connections."""

    def begin(self) -> None:
        """Create new locks; forget threads and connections."""


_live: WeakSet[Forkable] = WeakSet()


def reset_after_fork(thing: Forkable) -> None:
    """Reset `thing`, now and in every forked child."""
    thing.begin()
    _live.add(thing)


def _in_child() -> None:
    for thing in list(_live):
        thing.begin()


os.register_at_fork(after_in_child=_in_child)
