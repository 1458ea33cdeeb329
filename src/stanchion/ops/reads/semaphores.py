"""Semaphores with their holders and waiters."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.jobs.job import Job
from stanchion.ops.reads.lists import SHOWN, page_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Condition, Order, Query
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.capacity.slots import semaphore_slot


class Line(NamedTuple):
    """The jobs that hold a semaphore, and its waiters in order."""

    holders: list[Job]
    waiting: list[Job]


def read_semaphores(store: Store) -> list[SemaphoreRow]:
    """Return the semaphores, the longest lines first."""
    return sorted(store.semaphores(), key=lambda one: (-one.waiting, one.name))


def read_line(context: Context, store: Store, name: str, now: int, limit: int = SHOWN) -> Line:
    """Return up to `limit` holders of a semaphore, and as many waiting jobs."""

    def jobs(field: str, order: Order) -> list[Job]:
        query = Query("live", (Condition(field, "=", semaphore_slot(name)),), order=order)
        return page_of(context, store, query, now, None, limit).jobs

    return Line(jobs("holds", "id"), jobs("waits_for", "arrival"))
