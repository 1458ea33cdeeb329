"""All queues, the ones with an alert first, as on the overview; or queues with an alert of one rule."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.alerts.verdict import by_queue
from stanchion.core.names.partition_names import logical_name
from stanchion.ops.reads.queues import headline
from stanchion.ops.web.live.figures import figures_of, is_quick
from stanchion.ops.web.visit import Visit

SHOWN = 200


def every(visit: Visit) -> Response:
    """List the queues, the ones that need a person first."""
    store, part, rule = visit.store, visit.asked("name"), visit.asked("alert")
    known = [one for one in store.queues() if logical_name(one.name) == one.name]
    sample = visit.site.sampler.latest()
    alerts, order = by_queue(sample.firing, sample.seen), {"now": 0, "soon": 1}
    such = {name for name, one in alerts.items() if rule in (one.rule, *one.merged)}
    matching = [one for one in known if part in one.name and (not rule or one.name in such)]
    ranked = {name: order[alert.level] for name, alert in alerts.items()}
    matching.sort(key=lambda one: ranked.get(one.name, 2))
    found = figures_of(store, sample, matching[:SHOWN], visit.now)
    found.sort(key=lambda one: ranked.get(one.name, 2))
    title = headline([one.name for one in matching], alerts) if found or rule else "No queue yet"
    as_of = None if is_quick(sample) else sample.monitor.at
    counts = {"known": len(known), "found": len(matching)}
    return visit.page("queues.html", title, queues=found, alerts=alerts, part=part, rule=rule, as_of=as_of, **counts)
