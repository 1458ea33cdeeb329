"""The rows of all jobs: the clock, the jobs of all queues, and wake-ups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Protocol

from stanchion.stores.memory.queue import Queue
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Tally
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import order_slot
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle.jobs import holds_key
from stanchion.stores.wakeup.listeners import Listeners


class Clock(Protocol):
    """The time source of the store."""

    clock_offset: float
    """Seconds added to the time, for tests."""

    def now(self) -> int:
        """Return the time in microseconds since 1970."""


class SteadyClock:
    """A clock that is not affected by changes of the system's clock."""

    def __init__(self) -> None:
        self.clock_offset = 0.0
        self._started_at = time.time_ns() // 1000
        self._started = time.monotonic_ns()

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        elapsed = (time.monotonic_ns() - self._started) // 1000
        return self._started_at + elapsed + int(self.clock_offset * SECOND)


class FrozenClock:
    """A stopped clock, at its creation time or a given one; its owner moves it, by `at` or `clock_offset`."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.clock_offset = time.time_ns() // 1000 if at is None else at, 0.0

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return self.at + int(self.clock_offset * SECOND)


class Jobs:
    """The jobs of all queues, by id, by the slot that they wait for, and by their order key."""

    def __init__(self, clock: Clock, listeners: Listeners) -> None:
        self.queues: dict[str, Queue] = {}
        self.now = clock.now
        self._listeners = listeners
        self._queue_of: dict[str, Queue] = {}
        self._waiting: dict[Slot, list[tuple[int, str]]] = {}
        self._of_key: dict[Slot, list[tuple[int, str]]] = {}

    # -- queues

    def queue(self, name: str) -> Queue:
        """Return a queue, made if missing."""
        if name not in self.queues:
            self.queues[name] = Queue(QueueSettings(name))
        return self.queues[name]

    def known(self, name: str) -> Queue:
        """Return a queue for reading; an empty one if missing."""
        return self.queues.get(name) or Queue(QueueSettings(name))

    def settings(self, name: str) -> QueueSettings:
        """Return the settings of a queue; the defaults if it is missing."""
        return self.known(name).settings

    def drop(self, name: str) -> list[JobRow]:
        """Delete a queue with all its contents; return its live jobs."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return []
        for job_id in (*queue.live, *queue.history):
            del self._queue_of[job_id]
        return list(queue.live.values())

    def count(self, tallies: Iterable[Tally]) -> None:
        """Add to the counters of queues."""
        for queue, event, number in tallies:
            self.queue(queue).counts[event] += number

    def wake(self, queue: str) -> None:
        """Signal that a queue may have work."""
        self._listeners.wake([queue])

    # -- reading

    def find(self, job_id: str) -> JobRow | None:
        """Return a job, live or finished, or None."""
        queue = self._queue_of.get(job_id)
        return None if queue is None else queue.live.get(job_id) or queue.history.get(job_id)

    def held_row(self, lease: Lease, now: int) -> JobRow | None:
        """Return a job if this is its lease in force."""
        row = self.find(lease.id)
        return row if claim_rules.holds(row, lease, now) else None

    def reserved(self, queue: str, token: str) -> list[JobRow]:
        """Return the jobs of a queue with reservations in force under this token, by id."""
        now, known = self.now(), self.known(queue)
        rows = (known.live[job_id] for job_id in sorted(known.running))
        return [row for row in rows if claim_rules.holds(row, Lease(queue, row.id, token), now)]

    def live(self) -> Iterator[JobRow]:
        """Yield all live jobs."""
        return (row for queue in self.queues.values() for row in queue.live.values())

    def finished_holder(self, job: NewJob, now: int) -> JobRow | None:
        """Return the finished job that holds the key of a new one, if it asks for that."""
        queue = self.known(job.queue)
        row = queue.history.get(queue.ended_keys.get(job.key or "", ""))
        return row if row is not None and row.id != job.id and holds_key(row, job, now) else None

    def running(self) -> Iterator[JobRow]:
        """Yield all running jobs."""
        return (queue.live[job_id] for queue in self.queues.values() for job_id in queue.running)

    def waiting(self, slot: Slot) -> Iterator[JobRow]:
        """Yield the jobs that wait for a slot, by arrival; the caller changes each before the next."""
        heap = self._waiting.get(slot)
        while heap:
            since, job_id = heap[0]
            row = self.find(job_id)
            if row is None or (row.waits_for, row.waits_since) != (slot, since):
                heappop(heap)
            else:
                yield row
        self._waiting.pop(slot, None)

    def waiting_ids(self, slot: Slot) -> list[str]:
        """Return the ids of the jobs that wait for a slot, by arrival."""
        found = {job_id for _, job_id in self._waiting.get(slot, ())}
        rows = (row for row in map(self.find, found) if row is not None and row.waits_for == slot)
        return [row.id for row in sorted(rows, key=lambda row: (row.waits_since or 0, row.id))]

    def waited_for(self) -> list[Slot]:
        """Return the slots that jobs wait for, or have waited for."""
        return list(self._waiting)

    def head_of_key(self, slot: Slot) -> str | None:
        """Return the first live job of an order key; None if there is none, or for another kind of slot."""
        heap = self._of_key.get(slot)
        while heap:
            enqueued_at, job_id = heap[0]
            row = self.find(job_id)
            live = row is not None and row.finished_at is None and row.enqueued_at == enqueued_at
            if live and row is not None and order_slot(row.queue, row.order_key or "") == slot:
                return job_id
            heappop(heap)
        self._of_key.pop(slot, None)
        return None

    # -- writing

    def put(self, row: JobRow) -> None:
        """Store a live job, new or changed."""
        queue = self._queue_of[row.id] = self.queue(row.queue)
        queue.put(row)
        if (slot := row.waits_for) is not None:
            heappush(self._waiting.setdefault(slot, []), (row.waits_since or 0, row.id))
        if row.order_key is not None:
            slot = order_slot(row.queue, row.order_key)
            heappush(self._of_key.setdefault(slot, []), (row.enqueued_at, row.id))
        if row.state == QUEUED:
            self.wake(row.queue)

    def keep(self, row: JobRow) -> None:
        """Store a finished job in history."""
        queue = self._queue_of[row.id] = self.queue(row.queue)
        queue.history[row.id] = row
        if row.key is not None and row.state != JobState.CANCELLED:
            last = queue.history.get(queue.ended_keys.get(row.key, ""), row)
            queue.ended_keys[row.key] = max(row, last, key=lambda one: one.finished_at or 0).id

    def store(self, row: JobRow) -> None:
        """Store a job, live or finished; a finished one of a queue without history is not kept."""
        if row.finished_at is None:
            self.put(row)
        elif self.settings(row.queue).history_ttl > 0:
            self.keep(row)

    def remove(self, row: JobRow) -> None:
        """Delete a job, live or finished."""
        self._queue_of.pop(row.id).remove(row)

    def replace(self, before: JobRow, after: JobRow, counted: str | None = None) -> None:
        """Store a job after a step; wake callers that wait for its end, or for a running place of its queue."""
        self.remove(before)
        self.store(after)
        if before.finished_at is None and (after.finished_at is not None or counted == "buried"):
            self._listeners.wake((), [after.id])
        if before.state == JobState.RUNNING and self.settings(before.queue).running_max is not None:
            self.wake(before.queue)
