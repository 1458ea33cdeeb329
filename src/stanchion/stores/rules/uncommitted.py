"""Calls that wait for the commit of the caller's transaction, in a store that stands for a database in a test."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class FollowsTransactions(Protocol):
    """A store that follows the caller's transactions."""

    @property
    def uncommitted(self) -> int:
        """The number of calls that wait for the commit of their transaction."""


def uncommitted(store: object) -> int:
    """Return how many calls wait for the commit of their transaction, as far as the store knows."""
    store = getattr(store, "within", store)  # below partitions
    return store.uncommitted if isinstance(store, FollowsTransactions) else 0
