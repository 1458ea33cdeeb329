"""Test runs: connections to a test database are closed before Django drops it, as PostgreSQL refuses otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.core import mail

_FIELD: Final = "destroy_test_db"

_closers: list[Callable[[], None]] = []


def before_drop(close: Callable[[], None]) -> None:
    """Call a function before a test database is dropped, the last one first. It may be called again."""
    _closers.append(close)


def in_test_run() -> bool:
    """Return whether Django's test runner, or that of pytest-django, has set up this process."""
    return hasattr(mail, "outbox")


def watch(connection: Any, **_: object) -> None:
    """Let a new connection of a test run close ours before it drops its database; other processes are left alone."""
    creation = connection.creation
    if in_test_run() and _FIELD not in vars(creation):
        setattr(creation, _FIELD, _closing(getattr(creation, _FIELD)))


def _closing(drop: Callable[..., None]) -> Callable[..., None]:
    def destroy_test_db(*args: object, **options: object) -> None:
        for close in reversed(_closers):
            close()
        drop(*args, **options)

    return destroy_test_db
