"""Semaphores: named capacities that jobs hold while they run.

declared in code ──first use──► stored, known to every process      enqueue with limits=[name] ──► known? ──► stored
                                                                                              └─no──► InvalidInput
"""

from __future__ import annotations

from stanchion.context.context import Context
from stanchion.context.declarations.semaphores import checked_capacity, unknown
from stanchion.core.checks import checked_name, whole
from stanchion.core.concurrency.aio import off_loop
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.lookup import job_of
from stanchion.jobs.search import MAX_PAGE
from stanchion.stores.records.query import Condition, Order, Query
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.capacity.slots import semaphore_slot


class Semaphore:
    """A capacity that jobs share. Made by `app.semaphore(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self.name = context, checked_name(name, "semaphore")

    @property
    def capacity(self) -> int:
        """The number of jobs that may hold it at the same time, read from the store; see `get_capacity`."""
        return self.get_capacity()

    def get_capacity(self) -> int:
        """Return the number of jobs that may hold it at the same time; 0: closed. Raises InvalidInput if undeclared."""
        return self.usage().capacity

    def usage(self) -> SemaphoreRow:
        """Return its capacity, and the number of jobs that hold it and wait for it."""
        for row in self._context.store_semaphores().semaphores([self.name]):
            return row
        raise unknown([self.name])

    def holders(self, limit: int = 100) -> list[Job]:
        """Return up to `limit` jobs that hold a slot: running, or about to run."""
        return self._jobs("holds", "id", limit)

    def blocked(self, limit: int = 100) -> list[Job]:
        """Return up to `limit` jobs that wait for a slot, the next one first."""
        return self._jobs("waits_for", "arrival", limit)

    def resize(self, capacity: int) -> None:
        """Change the capacity for every process. More wakes jobs; with less, jobs that hold a slot finish."""
        wanted = checked_capacity(capacity)
        self.usage()
        self._context.store.set_semaphore(self.name, wanted)

    def reset(self) -> int:
        """Reset the capacity to what the code declares, for all processes; return it. InvalidInput if undeclared."""
        self.usage()
        if not self._context.store.set_semaphore(self.name, None):
            raise InvalidInput(f"no code has declared a capacity of semaphore {self.name!r}; set one with resize()")
        return self.capacity

    def _jobs(self, field: str, order: Order, limit: int) -> list[Job]:
        slot = Condition(field, "=", semaphore_slot(self.name))
        query = Query("live", (slot,), order=order, limit=whole(limit, "limit", 1, MAX_PAGE))
        rows = self._context.store.select(query).rows
        if not rows:
            self.usage()  # raises for an undeclared semaphore; to ask first would count all waiters
        return [job_of(self._context, row) for row in rows]

    aget_capacity = off_loop(get_capacity)
    ausage = off_loop(usage)
    aholders = off_loop(holders)
    ablocked = off_loop(blocked)
    aresize = off_loop(resize)
    areset = off_loop(reset)

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} of {self._context!r}>"


def declared_semaphore(context: Context, name: str, capacity: int | None) -> Semaphore:
    """Return a semaphore. A capacity given here is stored when this process first uses it."""
    semaphore = Semaphore(context, name)
    if capacity is not None:
        context.semaphores.declare(semaphore.name, capacity)
    return semaphore
