"""Errors: which few causes make the many failures."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.jobs.job import JobState
from stanchion.ops.web.reads.errors import READ, groups_of
from stanchion.ops.web.reads.filters import JobFilter
from stanchion.ops.web.reads.lists import page_of
from stanchion.ops.web.show.words import number, plural
from stanchion.ops.web.visit import Visit

SHOWN = 100


def every(visit: Visit) -> Response:
    """Group the newest dead jobs by what ended them."""
    wanted = JobFilter.of(visit.request.query_params).with_states(JobState.DEAD)
    found = page_of(visit.site.app.context, visit.store, wanted.query(visit.now), visit.now, None, READ)
    groups, redact = groups_of(found.jobs), visit.site.redaction.text
    groups = [one._replace(error=redact(one.error)) for one in groups]
    if not groups:
        title = "No job is dead"
    else:
        title = f"{plural(len(groups), 'cause')} of {plural(len(found.jobs), 'dead job')}"
    source = f"the newest {number(READ)} dead jobs" if found.next else "all dead jobs that are still in history"
    return visit.page(
        "errors.html",
        title,
        groups=groups[:SHOWN],
        total=len(groups),
        source=source,
        whole=len(found.jobs),
    )
