"""The plots that a page shows: of the last hour, or of the last two days."""

from __future__ import annotations

from typing import Final, NamedTuple

from stanchion.core.checks import refuse_unknown
from stanchion.ops.web.show.hour import plots_of
from stanchion.ops.web.show.plots import Plot
from stanchion.ops.web.visit import Visit
from stanchion.telemetry.rollups import ALL, HOUR, HOURS_KEPT


class Plots(NamedTuple):
    """The plots of a time span. `span`: its name in the URL; `other`: the name of the other one."""

    span: str
    title: str
    other: str
    other_title: str
    drawn: list[Plot]


SPANS: Final = {"": "The last hour", "2d": "The last two days"}
"""By their names in the URL."""


def asked(visit: Visit, queue: str) -> Plots:
    """Return the plots of a queue, or of `rollups.ALL`, for the time that the URL asks for. Raises InvalidInput."""
    span, site = visit.asked("span"), visit.site
    refuse_unknown([span], SPANS, "span")
    if span:
        points = visit.part("past", lambda: site.past.of(queue, visit.now)) or []
        drawn = plots_of(points, (visit.now - HOURS_KEPT * HOUR, visit.now))
    else:
        site.sampler.latest()
        track = site.sampler.all if queue == ALL else site.sampler.queues.get(queue)
        drawn = [] if track is None else plots_of(track.points, (visit.now - HOUR, visit.now))
    other = next(name for name in SPANS if name != span)
    return Plots(span, SPANS[span], other, SPANS[other], drawn)
