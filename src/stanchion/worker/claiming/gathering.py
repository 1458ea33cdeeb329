"""Gathering: the claimed jobs of batch tasks wait here, until their batch is full or its wait is over.

claimed ──► gathered ──full, or `wait` seconds after its first job──► buffered as one batch ──► running
                ├──asked to stop──► cancelled
                └──the worker stops──► back in the queue, unharmed

Gathered jobs need no slot, so a claim may take more jobs than slots are free where it fills a batch. No claim can tell
beforehand whether the due jobs of a queue are for batches: a queue that has brought others is asked for as many jobs
as slots are free, and for twice as many as it brought when all of them were for batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import NamedTuple

from stanchion.context.registry import Registry
from stanchion.context.work import Batching
from stanchion.core.names.partition_names import logical_name
from stanchion.stores.records.jobs import JobRow
from stanchion.worker.running.runner import Held, Runners

_TASK = attrgetter("task")

_Key = tuple[str | None, str]
"""A task and a queue."""


class _Pile(NamedTuple):
    """The gathered jobs of a batch. `due`: when its wait is over, on the monotonic clock."""

    jobs: list[Held]
    batching: Batching
    due: float


class Gathering:
    """The batches that are not full yet. One thread adds jobs; another ends the waits.

    `busy()`: the slots that the worker's jobs take.
    """

    def __init__(self, registry: Registry, runners: Runners, busy: Callable[[], int]) -> None:
        self._registry, self._runners, self._busy = registry, runners, busy
        self._piles: dict[_Key, _Pile] = {}
        self._known = 0
        self._sizes: dict[str, int] = {}
        """The size of the smallest batches, of queues that have any: more jobs might be for more batches than slots."""
        self._asks: dict[str, int] = {}
        """Jobs that the next claim from such a queue may ask for to fill a batch."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def asks(self, queue: str, slots: int) -> int:
        """Return how many jobs a claim from a queue may ask for, given the free slots: for one batch at most."""
        name = logical_name(queue)
        if (size := self._size(name)) == 0:
            return slots
        piles = [pile for (_, of), pile in self._piles.copy().items() if of == name]
        lacking = min((pile.batching.size - len(pile.jobs) for pile in piles), default=size)
        return max(slots, min(self._asks.get(name, 0), size, lacking))

    def serves(self, queue: str) -> bool:
        """Return whether jobs of a queue may wait for a batch."""
        return self._size(logical_name(queue)) > 0

    def take(self, rows: list[JobRow], claimed_at: float) -> tuple[list[JobRow], int]:
        """Take in the jobs of batch tasks among claimed ones; return the others, and the number of batches started."""
        found = {task: one for task in set(map(_TASK, rows)) if (one := self._batching(task)) is not None}
        name = logical_name(rows[0].queue)
        if not found:
            if name in self._asks:
                self._asks[name] = 0
            return rows, 0
        others, started = [row for row in rows if row.task not in found], 0
        self._runners.gathered(len(rows) - len(others))
        with self._changed:
            for row in rows:
                if (batching := found.get(row.task)) is not None:
                    started += self._add((row.task, name), batching, (row, claimed_at))
            started += sum(self._close(key) for key, pile in list(self._piles.items()) if pile.batching.wait == 0)
            self._changed.notify()
        sizes = [one.size for one in found.values()]
        size = self._sizes[name] = min(self._size(name) or sizes[0], *sizes)
        self._asks[name] = 0 if others else min(size, 2 * max(len(rows), self._asks.get(name, 0)))
        return others, started

    def take_out(self, ids: Collection[str]) -> list[JobRow]:
        """Return those of these jobs that wait here, and leave them out of their batches."""
        found: list[JobRow] = []
        with self._changed:
            for key, pile in list(self._piles.items()):
                found += [row for row, _ in pile.jobs if row.id in ids]
                pile.jobs[:] = [held for held in pile.jobs if held[0].id not in ids]
                if not pile.jobs:
                    del self._piles[key]
        self._runners.gathered(-len(found))
        return found

    def close(self) -> int:
        """Start all batches as they are; return their number."""
        with self._changed:
            return sum(self._close(key) for key in list(self._piles))

    def stop(self) -> list[JobRow]:
        """Gather no more; return the gathered jobs."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
            piles, self._piles = self._piles, {}
        rows = [row for pile in piles.values() for row, _ in pile.jobs]
        self._runners.gathered(-len(rows))
        return rows

    def _add(self, key: _Key, batching: Batching, held: Held) -> int:
        pile = self._piles.get(key)
        if pile is None:
            pile = self._piles[key] = _Pile([], batching, time.monotonic() + batching.wait)
            if batching.wait and self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="stanchion-gathering", daemon=True)
                self._thread.start()
        pile.jobs.append(held)
        return self._close(key) if len(pile.jobs) >= batching.size else 0

    def _close(self, key: _Key) -> int:
        self._runners.add_batch(self._piles.pop(key).jobs, self._busy() + 1)
        return 1

    def _watch(self) -> None:
        """Start the batches whose wait is over."""
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                for key, pile in list(self._piles.items()):
                    if pile.due <= now:
                        self._close(key)
                next_due = min((pile.due for pile in self._piles.values()), default=None)
                self._changed.wait(None if next_due is None else max(0.0, next_due - time.monotonic()))

    # -- what is known of a queue

    def _batching(self, task: str | None) -> Batching | None:
        work = None if task is None else self._registry.tasks.get(task)
        return None if work is None else work.batching

    def _size(self, queue: str) -> int:
        """Return the size of the smallest batches of a queue; 0 if it is not known to have any."""
        if self._known != len(tasks := self._registry.tasks):
            self._known = len(tasks)
            works = list(tasks.values())
            mixed = {work.queue for work in works if work.batching is None}
            for work in works:
                if work.batching is not None:
                    size = work.batching.size
                    self._sizes[work.queue] = min(self._sizes.get(work.queue, size), size)
                    self._asks.setdefault(work.queue, 0 if work.queue in mixed else size)
        return self._sizes.get(queue, 0)
