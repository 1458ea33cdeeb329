"""Statements of a thread on the event loop of a caller's asynchronous connection; see `core.concurrency.caller`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stanchion.core.concurrency.caller import awaited

T = TypeVar("T")


def in_greenlet(work: Callable[[], T]) -> T:
    """Run synchronous code of SQLAlchemy that waits for an asynchronous driver; see `awaited`."""
    from sqlalchemy import util

    return awaited(lambda: util.greenlet_spawn(work))


def at_once(work: Callable[[], T]) -> T:
    """Run code in this thread."""
    return work()
