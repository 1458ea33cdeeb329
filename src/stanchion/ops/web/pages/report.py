"""The report: what finished in a period, against the one before."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.core.checks import checked_name, refuse_unknown
from stanchion.ops.reads.filters import SPANS
from stanchion.ops.web.live.reports import MOST, Key
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import SPAN_NAMES, number
from stanchion.reporting.page import period_of, sections_of
from stanchion.reporting.verdict import verdict_of

USUAL = "24h"
MARKS = {"bad": "dead", "fair": "risk", "good": "done"}


def show(visit: Visit) -> Response:
    """Show the report of a period, as it was counted last, and how far the next one is."""
    span, queue = visit.asked("since", USUAL), visit.asked("queue").strip()
    refuse_unknown([span], SPANS, "period")
    if queue:
        checked_name(queue, "queue")
    made, counted = visit.site.reports.ask(Key(SPANS[span], queue), visit.now)
    found = None if made is None else made.report
    figures = found.figures if found is not None and found.jobs else None
    if made is not None and made.error:
        title = "The report could not be made"
    elif found is None:
        title = f"Counting: {number(counted or 0)} jobs so far"
    else:
        title = verdict_of(figures).sentence if figures else "Nothing to report"
    return visit.page(
        "report.html",
        visit.site.redaction.text(title),
        span=span,
        spans=[(name, SPAN_NAMES[name]) for name in SPANS],
        queue=queue,
        made=made,
        counted=counted,
        most=MOST,
        facts=verdict_of(figures).facts if figures else (),
        marks=MARKS,
        period=period_of(figures["whole"]) if figures else "",
        sections=sections_of(figures) if figures else (),
        redact=visit.site.redaction.text,
    )
