"""Semaphores: holders, and the line of waiters; and the declared rates."""

from __future__ import annotations

from starlette.responses import Response

from stanchion.alerts.words import named
from stanchion.context import context_of
from stanchion.context.declarations.rates import stored_rates
from stanchion.errors import InvalidInput
from stanchion.jobs.options import spelled_rate
from stanchion.ops.naming import job_names
from stanchion.ops.reads.lists import SHOWN as SHOWN_JOBS
from stanchion.ops.reads.semaphores import read_line, read_semaphores
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import number
from stanchion.stores.records.queues import SemaphoreRow

SHOWN = 500
CAPACITY_MAX = 1_000_000


def every(visit: Visit) -> Response:
    """List the semaphores, the longest lines first, and the declared rates."""
    found, rates = read_semaphores(visit.store), stored_rates(visit.store)
    shown = [(one.name, _spelled(one.per_second), _spelled(one.declared)) for one in rates[:SHOWN]]
    title, some = _headline(found), found[:SHOWN]
    return visit.page("semaphores.html", title, items=some, total=len(found), rates=shown, all_rates=len(rates))


def _spelled(per_second: float | None) -> str:
    return "" if per_second is None else spelled_rate(per_second)


def show(visit: Visit) -> Response:
    """Show one semaphore: its holders, and its waiters in order."""
    row = _row(visit)
    title = f"{row.name}: {row.held:,} of {row.capacity:,} held, {row.waiting or 'no job'} waiting"
    line = read_line(context_of(visit.site.app), visit.store, row.name, visit.now)
    jobs = [*line.holders, *line.waiting]
    names = job_names(context_of(visit.site.app), visit.store, jobs, visit.now)
    return visit.page("semaphore.html", title, row=row, **line._asdict(), names=names, most=SHOWN_JOBS)


def resize(visit: Visit) -> Response:
    """Change the capacity."""
    row, text = _row(visit), visit.form.get("capacity", "").strip()
    if not text.isdecimal() or not text.isascii() or len(text) > 7 or int(text) > CAPACITY_MAX:
        raise InvalidInput(f"a capacity is a whole number up to {CAPACITY_MAX:,}")
    visit.audit("resize semaphore", row.name, 0, f"{row.capacity} → {text}")
    visit.site.app.semaphore(row.name).resize(int(text))
    said = f"{row.name} has a capacity of {int(text):,}; it was {row.capacity:,}"
    return visit.done(f"/semaphores/{visit.segment}", said)


def _row(visit: Visit) -> SemaphoreRow:
    for row in visit.store.semaphores([visit.name]):
        return row
    raise Missing(f"there is no semaphore {visit.name!r}")


def _headline(found: list[SemaphoreRow]) -> str:
    if not found:
        return "No semaphore"
    stuck = [one.name for one in found if one.waiting and one.held < one.capacity]
    if stuck:
        return f"{named(stuck)} {'has' if len(stuck) == 1 else 'have'} a free slot and a line"
    lines = [one.name for one in found if one.waiting]
    if len(lines) == 1:
        return f"{lines[0]} has a line"
    if not lines:
        return "No job waits for a semaphore"
    return f"{number(len(lines))} of {number(len(found))} semaphores have a line"
