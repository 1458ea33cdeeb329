"""Objects that a fork concerns.

A forked child has only the caller's thread, locks in the state they had, and connections that belong to the
parent. Objects that hold any of these are reset in the child. Where a driver would end the parent's connection as soon
as the child forgets it, the connection is closed before the fork. Where a copied connection would do harm in the
child, the object lets none be open, and opens none until the fork is over.
"""

from __future__ import annotations

import logging  # noqa: F401 - see the end
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks, threads or connections."""

    def begin(self) -> None:
        """Create new locks; forget threads and connections."""


class Closable(Protocol):
    """An object that closes its resources, and opens them again when needed."""

    def close(self) -> None:
        """Close it."""


class Guarded(Forkable, Protocol):
    """An object that lets none of its resources be open at a fork."""

    def before_fork(self) -> None:
        """Close them, and open none until `after_fork`."""

    def after_fork(self) -> None:
        """Open them again when needed: the fork is over, and this is the parent."""


_live: WeakSet[Forkable] = WeakSet()
_guarded: WeakSet[Guarded] = WeakSet()
_closed_before: WeakSet[Closable] = WeakSet()


def reset_after_fork(thing: Forkable) -> None:
    """Reset `thing`, now and in every forked child."""
    thing.begin()
    _live.add(thing)


def close_before_fork(thing: Closable) -> None:
    """Close `thing` before each fork."""
    _closed_before.add(thing)


def guard_forks(thing: Guarded) -> None:
    """Reset `thing`, now and in every forked child; call it before each fork and, in the parent, after it."""
    reset_after_fork(thing)
    _guarded.add(thing)


def _before() -> None:
    for guarded in list(_guarded):
        guarded.before_fork()
    for thing in list(_closed_before):
        thing.close()


def _in_parent() -> None:
    for thing in list(_guarded):
        thing.after_fork()


def _in_child() -> None:
    for thing in list(_live):
        thing.begin()


# Hooks of earlier modules run later before a fork. The one of logging takes a lock that the threads need which this one
# waits for.
os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, in which a task that has forked is over: its job, and the worker, are the parent's.

    Its exit code is that of a script: 0 if the task returned, 1 if it raised, or what SystemExit says.
    """
    code = 0
    if isinstance(error, SystemExit):
        given = error.code
        code = given if isinstance(given, int) else 0 if given is None else 1
    elif error is not None:
        code = 1
        with suppress(Exception):
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code & 0xFF)
