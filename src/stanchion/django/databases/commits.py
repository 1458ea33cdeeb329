"""Calls and views that can't join the transactions of this thread: the store has connections of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import connections, transaction

View = TypeVar("View", bound=Callable[..., object])


def outside_transactions(view: View) -> View:
    """Exempt a view from ATOMIC_REQUESTS on all databases.

    On SQLite the request's transaction would keep the store from writing. Django refuses async views within one.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(alias)(view)
    return view


def after_commits(call: Callable[[], object]) -> None:
    """Call once all blocks of `transaction.atomic` that this thread has open are committed; now if it has none.

    If one of them is rolled back, the call is never made.
    """
    waiting = {one.alias for one in connections.all(initialized_only=True) if one.in_atomic_block}
    if not waiting:
        call()

    def committed(alias: str) -> None:
        waiting.discard(alias)
        if not waiting:
            call()

    for alias in sorted(waiting):
        transaction.on_commit(partial(committed, alias), using=alias)
