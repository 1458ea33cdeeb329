"""Resetting what a forked child must not share.

A fork takes along no thread but the caller's, every lock as it was at that moment, and open connections
that are the parent's. So what has any of these is reset in the child.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something with locks, threads or connections."""

    def begin(self) -> None:
        """Make locks anew; forget threads and connections."""


_live: WeakSet[Forkable] = WeakSet()


def reset_after_fork(thing: Forkable) -> None:
    """Reset `thing`, now and in every forked child."""
    thing.begin()
    _live.add(thing)


def _in_child() -> None:
    for thing in list(_live):
        thing.begin()


os.register_at_fork(after_in_child=_in_child)
