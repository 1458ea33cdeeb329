"""Statements on the event loop of a caller's asynchronous connection, from a call in a thread; see `core.caller`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from stanchion.core.caller import NoCaller, from_caller
from stanchion.errors import CannotJoin

T = TypeVar("T")


def awaited(make: Callable[[], Awaitable[T]]) -> T:
    """Run an awaitable on the event loop of the caller; CannotJoin if no task awaits this call."""
    try:
        return from_caller(make)
    except NoCaller:
        raise CannotJoin(
            "tx is asynchronous: its statements run on its event loop, so await the async twin of this call, such as "
            "aenqueue, apush or acommit"
        ) from None


def in_greenlet(work: Callable[[], T]) -> T:
    """Run synchronous code of SQLAlchemy that waits for an asynchronous driver; see `awaited`."""
    from sqlalchemy.util import greenlet_spawn

    return awaited(lambda: greenlet_spawn(work))


def at_once(work: Callable[[], T]) -> T:
    """Run code in this thread."""
    return work()
