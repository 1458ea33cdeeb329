"""Schedules: their jobs and times; pause, resume, run now."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from stanchion.alerts.words import named
from stanchion.cron.schedule import Schedule
from stanchion.errors import InvalidInput
from stanchion.jobs.handle import JobHandle
from stanchion.ops.reads.schedules import read_schedules
from stanchion.ops.web.visit import Missing, Visit
from stanchion.ops.words import number, plural

SHOWN = 500


def every(visit: Visit) -> Response:
    """List the schedules, the ones that do not fire first."""
    items = read_schedules(visit.site.app)
    orphaned = [one.schedule.name for one in items if one.state == "undeclared"]
    if not items:
        title = "No schedule"
    elif orphaned:
        title = f"{named(orphaned)} {'does' if len(orphaned) == 1 else 'do'} not fire: no worker declares it"
    else:
        active = sum(one.state == "active" for one in items)
        title = f"{plural(active, 'schedule')} active" + (
            f", {number(len(items) - active)} paused" if active < len(items) else ""
        )
    return visit.page("schedules.html", title, items=items[:SHOWN], total=len(items))


def ask(visit: Visit) -> Response:
    """Ask before a schedule is paused, resumed or run."""
    schedule, act = _schedule(visit), visit.request.path_params["act"]
    if act not in _ACTS:
        raise InvalidInput(f"a schedule can be paused, resumed and run, not {act!r}")
    return visit.confirm(
        f"{act.capitalize()} {schedule.name}{' now' if act == 'run' else ''}?",
        f"{act.capitalize()} {schedule.name}",
        f"/schedules/{act}/{visit.segment}",
        "/schedules",
        effects=[_EFFECTS[act]],
        wants_note="Why? (for the audit log)",
        command=f"stanchion cron {'trigger' if act == 'run' else act} {schedule.name}",
    )


def act(visit: Visit) -> Response:
    """Pause, resume or run a schedule."""
    schedule, name = _schedule(visit), visit.request.path_params["act"]
    if name not in _ACTS:
        raise InvalidInput(f"a schedule can be paused, resumed and run, not {name!r}")
    visit.audit(f"{name} schedule", schedule.name, 1 if name == "run" else 0, visit.note())
    ran = _ACTS[name](schedule)
    if isinstance(ran, JobHandle):
        return visit.done("/schedules", f"{schedule.name} runs now", f"/jobs/{ran.id}", "see its job")
    return visit.done("/schedules", f"The schedule {schedule.name} is {name}d")


_ACTS: dict[str, Callable[[Schedule], object]] = {
    "pause": Schedule.pause,
    "resume": Schedule.resume,
    "run": Schedule.trigger,
}
_EFFECTS = {
    "pause": "Its ticks are skipped from now on, in every process, until someone resumes it.",
    "resume": "It fires again from its next tick on. Ticks that were skipped are not made up for.",
    "run": "Its job is enqueued once now, in addition to its ticks.",
}


def _schedule(visit: Visit) -> Schedule:
    try:
        return visit.site.app.schedule(visit.name)
    except InvalidInput as error:
        raise Missing(str(error)) from None
