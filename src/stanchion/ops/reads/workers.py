"""Workers, and who else holds jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import CONSUMER, HOLDER, WorkerRow
from stanchion.stores.rules.leases.liveness import alive


class Item(NamedTuple):
    """A worker, its name for people, and its state: late, running, draining, consumer or holder.

    `queues`: the queues that it serves, each with its lanes unless it serves all.
    """

    worker: WorkerRow
    name: str
    state: str
    queues: tuple[str, ...]


def is_late(worker: WorkerRow, now: int) -> bool:
    """Return whether a worker is so late that others take its jobs."""
    return worker.state != HOLDER and not alive(worker, now)


def is_worker(worker: WorkerRow) -> bool:
    """Return whether it runs tasks, and does not only hold jobs."""
    return worker.state not in (CONSUMER, HOLDER)


def live_workers(rows: Iterable[WorkerRow], now: int) -> list[WorkerRow]:
    """Return the workers among these that others count on."""
    return [one for one in rows if is_worker(one) and not is_late(one, now)]


def read_workers(store: Store, now: int) -> list[Item]:
    """Return the workers and who else holds jobs, late ones first."""
    return items_of(store.workers(holders=True), now)


def items_of(rows: Iterable[WorkerRow], now: int) -> list[Item]:
    """Return these workers, late ones first, holders last."""
    items = (_item(worker, now) for worker in rows)
    return sorted(items, key=lambda one: (one.state != "late", one.state == HOLDER, one.name))


def _item(worker: WorkerRow, now: int) -> Item:
    name = worker.id if worker.state == HOLDER else f"{worker.host}:{worker.pid}"
    lanes = {one.queue: f"{one.queue}={max(0, one.first)}-{one.last}" for one in worker.lanes}
    queues = tuple(lanes.get(queue, queue) for queue in worker.queues)
    return Item(worker, name, "late" if is_late(worker, now) else worker.state, queues)
