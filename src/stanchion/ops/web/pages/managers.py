"""Managers: is each alive, what does it own, and does it keep up?"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from stanchion.alerts.words import named
from stanchion.core.text.durations import spelled
from stanchion.ops.reads.wings.managers import ManagerFigures, manager_figures
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import number, plural

SHOWN: Final = 100
QUEUES_SHOWN: Final = 50
"""Queues of a manager that are listed."""

_MARKS: Final = {"alive": "running", "ending": "waiting", "gone": "cancelled", "late": "risk"}


def every(visit: Visit) -> Response:
    """List the managers, the ones in trouble first."""
    sample = visit.site.sampler.latest()
    found = manager_figures(visit.store, sample.seen.managers, visit.now, sample.limits.manager)
    return visit.page(
        "managers.html",
        headline(found),
        items=[(one, _MARKS.get(one.state, "needs")) for one in found[:SHOWN]],
        total=len(found),
        asked=any(one.status is not None for one in found),
        queues_shown=QUEUES_SHOWN,
        read_at=sample.seen.at,
    )


def headline(found: list[ManagerFigures]) -> str:
    """Return the state of all managers, as a sentence."""
    if not found:
        return "No manager"
    said = (
        ("silent", "does not answer", "do not answer"),
        ("store silent", "has lost its store", "have lost their store"),
    )
    for state, one, several in said:
        names = [each.address for each in found if each.state == state]
        if names:
            return f"{named(names)} {one if len(names) == 1 else several}"
    late = next((one for one in found if one.state == "late"), None)
    if late is not None:
        return f"{late.address} is {spelled(late.lag)} behind"
    gone = sum(one.state == "gone" for one in found)
    alive = len(found) - gone
    if gone and alive:
        return f"{plural(alive, 'manager')} {_are(alive)} alive, {number(gone)} {_are(gone)} gone"
    state = "gone" if gone else "alive"
    return f"The manager is {state}" if len(found) == 1 else f"All {number(len(found))} managers are {state}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
