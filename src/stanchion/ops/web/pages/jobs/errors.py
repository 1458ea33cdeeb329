"""Errors: which few causes make the many failures; and one of them."""

from __future__ import annotations

from markupsafe import Markup
from starlette.responses import Response

from stanchion.context import context_of
from stanchion.core.text.error_kinds import KEY, type_of
from stanchion.ops.reads.errors import Errors, Group, hidden, read_errors, source_of
from stanchion.ops.reads.filters import JobFilter
from stanchion.ops.reads.track import HOUR
from stanchion.ops.web.show.plots import Line, Plot, spark
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import number, plural, rate

SHOWN = 100


def every(visit: Visit) -> Response:
    """List the groups of errors."""
    found = _read(visit)
    return visit.page(
        "errors.html",
        headline(found),
        groups=found.groups[:SHOWN],
        queue=visit.asked("queue"),
        total=len(found.groups),
        source=source_of(found),
        dead=found.dead,
        now=visit.now,
        trend=lambda group: _trend(group, visit.now),
        exact=found.whole,
    )


def show(visit: Visit) -> Response:
    """Show one group."""
    if not KEY.fullmatch(visit.name):
        raise Missing("an error is named by 8 hexadecimal digits; see the page of errors")
    found = _read(visit)
    group = next((one for one in found.groups if one.key == visit.name), None)
    if group is None:
        raise Missing(f"no dead job and no failed attempt of late is of the group {visit.name}")
    values = group.minutes(visit.now)
    failed = group.in_the_hour(visit.now)
    plot = Plot(
        "Failed attempts per minute",
        [Line("failed", "risk", values, filled=True)],
        f"{number(failed)} attempts failed by it within the last hour",
        rate,
    )
    return visit.page(
        "error.html",
        verdict(group),
        group=group,
        queue=visit.asked("queue"),
        plot=plot,
        failed=failed,
        source=source_of(found),
        exact=found.whole,
        tallied=found.tallied,
    )


def verdict(group: Group) -> str:
    """Return a group as a sentence: `payments.capture fails with TimeoutError`."""
    name = type_of(group.error) or "this error"
    who = group.task or "A job without a task"
    return f"{who} {'dies of' if group.dead else 'fails with'} {name}"


def headline(found: Errors) -> str:
    """Return the verdict: `2 causes of 317 dead jobs`, or that none is dead."""
    causes = sum(group.dead > 0 for group in found.groups)
    if causes:
        more = "" if found.whole else " or more"
        return f"{plural(causes, 'cause')} of {number(found.dead)}{more} dead job{'s' if found.dead > 1 else ''}"
    if found.groups:
        return f"No job is dead; attempts failed by {plural(len(found.groups), 'cause')}"
    return "No job is dead, and no attempt failed"


def _read(visit: Visit) -> Errors:
    wanted = JobFilter.of(visit.request.query_params)
    found = read_errors(context_of(visit.site.app), visit.store, wanted, visit.now)
    return hidden(found, visit.site.redaction.text)


def _trend(group: Group, now: int) -> Markup:
    return spark(group.minutes(now), "risk", now - HOUR)
