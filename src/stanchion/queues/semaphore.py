"""Semaphores: named capacities that jobs hold while they run.

declared in code ──first use──► stored, known to every process      enqueue with limits=[name] ──► known? ──► stored
                                                                                              └─no──► InvalidInput
"""

from __future__ import annotations

from stanchion.context.context import Context
from stanchion.context.semaphores import checked_capacity, unknown
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_name, whole
from stanchion.errors import InvalidInput
from stanchion.jobs.job import Job
from stanchion.jobs.lookup import job_of
from stanchion.jobs.search import MAX_PAGE
from stanchion.stores.records.query import Condition, Order, Query
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.slots import semaphore_gate


class Semaphore:
    """A capacity that jobs share. Made by `app.semaphore(name)`."""

    def __init__(self, context: Context, name: str) -> None:
        self.context, self.name = context, checked_name(name, "semaphore")

    @property
    def capacity(self) -> int:
        """How many jobs may hold it at once; 0: it is closed. InvalidInput when nobody has declared it."""
        return self.usage().capacity

    def usage(self) -> SemaphoreRow:
        """Return its capacity, and how many jobs hold it and wait for it."""
        for row in self.context.store_semaphores().semaphores([self.name]):
            return row
        raise unknown([self.name])

    def holders(self, limit: int = 100) -> list[Job]:
        """Return up to `limit` of the jobs that hold a slot: running, or about to."""
        self.usage()
        return self._jobs("holds", "id", limit)

    def waiting(self, limit: int = 100) -> list[Job]:
        """Return the first `limit` jobs of its line, the next one first."""
        self.usage()
        return self._jobs("waits_for", "arrival", limit)

    def resize(self, capacity: int) -> None:
        """Change the capacity for every process: more wakes jobs at once, less lets those that hold a slot finish."""
        wanted = checked_capacity(capacity)
        self.usage()
        self.context.store.set_semaphore(self.name, wanted)

    def reset(self) -> int:
        """Go back to the capacity that the code declares, for every process; return it. InvalidInput if it has none."""
        self.usage()
        if not self.context.store.set_semaphore(self.name, None):
            raise InvalidInput(f"no code has declared a capacity of semaphore {self.name!r}; give it one with resize")
        return self.capacity

    def _jobs(self, field: str, order: Order, limit: int) -> list[Job]:
        slot = Condition(field, "=", semaphore_gate(self.name))
        query = Query("live", (slot,), order=order, limit=whole(limit, "limit", 1, MAX_PAGE))
        return [job_of(self.context, row) for row in self.context.store.select(query).rows]

    ausage = off_loop(usage)
    aholders = off_loop(holders)
    awaiting = off_loop(waiting)
    aresize = off_loop(resize)
    areset = off_loop(reset)

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} of {self.context!r}>"


def declared_semaphore(context: Context, name: str, capacity: int | None) -> Semaphore:
    """Return a semaphore. A capacity given here is stored at the first use by this process."""
    semaphore = Semaphore(context, name)
    if capacity is not None:
        context.semaphores.declare(semaphore.name, capacity)
    return semaphore
