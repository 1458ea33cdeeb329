"""Calls that wait for the transactions of this thread: jobs of a store that can't join them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.db import connections, transaction


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
