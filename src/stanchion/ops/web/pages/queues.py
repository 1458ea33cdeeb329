"""All queues."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.core.partition_names import logical_name
from stanchion.ops.web.reads.queues import figures, headline
from stanchion.ops.web.visit import Visit

SHOWN = 200


def every(visit: Visit) -> Response:
    """List the queues, those in trouble first."""
    store, part = visit.store, visit.asked("name")
    known = [one for one in store.queues() if logical_name(one.name) == one.name]
    matching = [one for one in known if part in one.name]
    found = figures(store, matching[:SHOWN], store.workers(), visit.now)
    title = headline(found) if found else "No queue yet"
    return visit.page("queues.html", title, queues=found, part=part, known=len(known), found=len(matching))
