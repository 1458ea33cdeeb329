"""The audit log."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.errors import InvalidInput
from stanchion.ops.web.record.audit import KEPT
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import plural

SHOWN = 100


def log(visit: Visit) -> Response:
    """Show who did what, newest first."""
    before = visit.asked("before")
    if before and not (before.isdecimal() and len(before) < 9):
        raise InvalidInput("before is the number of a part of the log")
    entries, older = visit.site.audit.newest(SHOWN, int(before) if before else None)
    entries = [one for one in entries if one.at > visit.now - KEPT]
    people = len({one.who for one in entries})
    headline = f"{plural(len(entries), 'act')} of {plural(people, 'person', 'people')}" if entries else "No act so far"
    return visit.page("audit.html", "Audit", headline=headline, entries=entries, older=older)
