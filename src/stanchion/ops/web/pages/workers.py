"""Workers, and who else holds jobs."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from stanchion.ops.web.reads.queues import is_late
from stanchion.ops.web.show.words import plural
from stanchion.ops.web.visit import Visit
from stanchion.stores.records.workers import CONSUMER, HOLDER, WorkerRow

SHOWN = 500


class Item(NamedTuple):
    """A worker, its name for people, and its state: late, running, draining, consumer or holder."""

    worker: WorkerRow
    name: str
    state: str
    queues: str


def every(visit: Visit) -> Response:
    """List the workers, late ones first."""
    rows = visit.store.workers(holders=True)
    items = sorted((_item(worker, visit.now) for worker in rows), key=lambda one: (one.state != "late", one.name))
    late = sum(one.state == "late" for one in items)
    workers = sum(one.worker.state not in (CONSUMER, HOLDER) for one in items)
    if not items:
        title = "No worker"
    elif late:
        title = f"{plural(late, 'worker')} of {workers} {'is' if late == 1 else 'are'} late"
    else:
        title = "The worker is alive" if workers == 1 else f"All {workers} workers are alive"
    return visit.page("workers.html", title, items=items[:SHOWN], total=len(items))


def _item(worker: WorkerRow, now: int) -> Item:
    name = worker.id if worker.state == HOLDER else f"{worker.host}:{worker.pid}"
    lanes = {one.queue: f"{one.queue}={max(0, one.first)}-{one.last}" for one in worker.lanes}
    queues = ", ".join(lanes.get(queue, queue) for queue in worker.queues)
    return Item(worker, name, "late" if is_late(worker, now) else worker.state, queues)
