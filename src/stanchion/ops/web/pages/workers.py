"""Workers, and who else holds jobs."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.ops.reads.workers import is_worker, read_workers
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import number, plural

SHOWN = 500
QUEUES_SHOWN = 20


def every(visit: Visit) -> Response:
    """List the workers, late ones first."""
    items = read_workers(visit.store, visit.now)
    late = sum(one.state == "late" for one in items)
    workers = sum(is_worker(one.worker) for one in items)
    if not items:
        title = "No worker"
    elif late:
        title = f"{plural(late, 'worker')} of {number(workers)} {'is' if late == 1 else 'are'} late"
    else:
        title = "The worker is alive" if workers == 1 else f"All {number(workers)} workers are alive"
    return visit.page("workers.html", title, items=items[:SHOWN], total=len(items), most=QUEUES_SHOWN)
