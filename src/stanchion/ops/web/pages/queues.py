"""All queues."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.core.partition_names import logical_name
from stanchion.ops.reads.queues import headline
from stanchion.ops.web.live.figures import figures_of, is_quick
from stanchion.ops.web.visit import Visit

SHOWN = 200


def every(visit: Visit) -> Response:
    """List the queues, those in trouble first."""
    store, part = visit.store, visit.asked("name")
    known = [one for one in store.queues() if logical_name(one.name) == one.name]
    matching = [one for one in known if part in one.name]
    sample = visit.site.sampler.latest()
    found = figures_of(store, sample, matching[:SHOWN], visit.now)
    title = headline(found) if found else "No queue yet"
    as_of = None if is_quick(sample) else sample.monitor.at
    return visit.page("queues.html", title, queues=found, part=part, known=len(known), found=len(matching), as_of=as_of)
