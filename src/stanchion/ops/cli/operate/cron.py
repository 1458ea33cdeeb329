"""stanchion cron."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer
from rich.text import Text

from stanchion.core.times import iso, micros, moment
from stanchion.cron.expression import timetable, zone
from stanchion.cron.schedule import Schedule
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.output import Cell, Column
from stanchion.ops.cli.console.root import OPERATE, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.reads.schedules import Item, read_schedules

cron_cli = typer.Typer(help="List schedules; pause, resume, trigger and remove them; try out expressions.")
cli.add_typer(cron_cli, name="cron", rich_help_panel=OPERATE)

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of schedules.")]

SHOWN_TICKS = 3
MOST_TICKS = 1000

_COLUMNS = [
    Column("NAME", shrinks=True, keeps_ends=True),
    Column("CRON"),
    Column("ZONE", shrinks=True, keeps_end=True),
    Column("NEXT", shrinks=True, keeps=18),
    Column("LAST", from_width=100),
    Column("STATE"),
]


def list_(session: Session, limit: Rows = ROWS) -> Exit:
    """List schedules, with their next three ticks."""
    found, out = read_schedules(session.app), session.out
    if out.as_json:
        out.json_list(_schedule_json(one.schedule) for one in found)
    elif found:
        out.first(_COLUMNS, [_row(one) for one in found], limit)
        for one in found:
            if one.state == "undeclared":
                out.say(
                    f"{one.schedule.name} is not declared by any live worker, so it does not fire: start a worker that "
                    f"declares it, or: stanchion cron remove {one.schedule.name}"
                )
    else:
        out.say("no schedules: the first worker whose app has an @app.cron creates one")
    return Exit.OK if found else Exit.FAILED


command(cron_cli, group=True)(list_)
command(cron_cli, "list")(list_)


@command(cron_cli, "pause")
def pause(session: Session, names: Names) -> None:
    """Skip the ticks of schedules from now on, in every process."""
    for schedule in _known(session, names):
        session.audit("pause schedule", schedule.name)
        schedule.pause()
    session.out.done(f"paused: {', '.join(names)}", [{"schedule": name, "paused": True} for name in names])


@command(cron_cli, "resume")
def resume(session: Session, names: Names) -> None:
    """Fire the ticks of paused schedules again from now on."""
    for schedule in _known(session, names):
        session.audit("resume schedule", schedule.name)
        schedule.resume()
    session.out.done(f"resumed: {', '.join(names)}", [{"schedule": name, "paused": False} for name in names])


@command(cron_cli, "trigger")
def trigger(session: Session, names: Names) -> None:
    """Enqueue the job of schedules now, in addition to their ticks; print its id."""
    jobs = []
    for schedule in _known(session, names):
        session.audit("run schedule", schedule.name, 1)
        jobs.append((schedule.name, schedule.trigger()))
    if session.out.as_json:
        session.out.json([{"schedule": name, "job": job.id, "duplicate": job.duplicate} for name, job in jobs])
        return
    for name, job in jobs:
        session.out.line(job.id)
        if job.duplicate:
            session.out.say(f"{name}: a live job already has its key: this is its id")


@command(cron_cli, "remove")
def remove(session: Session, names: Names) -> None:
    """Delete schedules that are no longer in the code; their jobs stay."""
    found = _known(session, names)
    for schedule in found:
        session.audit("remove schedule", schedule.name)
        schedule.remove()
    session.out.done(f"removed: {', '.join(names)}", [{"schedule": name, "removed": True} for name in names])
    if declared := [schedule.name for schedule in found if schedule.declared]:
        session.out.say(f"live workers declare {', '.join(declared)}, so they would be recreated; pause them instead")


@command(cron_cli, "next")
def next_(
    session: Session,
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="Five fields, such as '0 3 * * MON-FRI'.")],
    tz: Annotated[str, typer.Option("--tz", help="Time zone, such as Europe/Paris.")] = "UTC",
    count: Annotated[int, typer.Option("--count", "-n", help="How many.")] = 5,
) -> None:
    """Print the next ticks of a cron expression: stanchion cron next '0 3 * * *' --tz Europe/Paris"""
    if not 1 <= count <= MOST_TICKS:
        raise InvalidInput(f"--count must be from 1 to {MOST_TICKS}, not {count}")
    ticks = islice(timetable(expression, tz).after(micros(datetime.now(UTC))), count)
    found = [moment(tick).astimezone(zone(tz)) for tick in ticks]
    if session.out.as_json:
        session.out.json_list(tick.isoformat() for tick in found)
        return
    for tick in found:
        session.out.line(tick.isoformat(" "))


def _known(session: Session, names: list[str]) -> list[Schedule]:
    return [session.app.schedule(name) for name in names]


def _schedule_json(schedule: Schedule) -> dict[str, object]:
    return {
        "name": schedule.name,
        "expression": schedule.expression,
        "tz": schedule.tz,
        "missed": schedule.missed,
        "task": schedule.task,
        "queue": schedule.queue,
        "next": [tick.isoformat() for tick in schedule.next(SHOWN_TICKS)],
        "last": None if schedule.last is None else iso(schedule.last.astimezone(UTC)),
        "paused": schedule.paused,
        "declared": schedule.declared,
    }


def _row(one: Item) -> list[Cell]:
    schedule, state = one.schedule, one.state
    styles = {"active": "green", "paused": "yellow", "undeclared": "bold red"}
    return [
        schedule.name,
        schedule.expression,
        schedule.tz,
        ", ".join(_short(schedule.next(SHOWN_TICKS))),
        "" if schedule.last is None else f"{schedule.last:%Y-%m-%d %H:%M}",
        Text(state, styles[state]),
    ]


def _short(ticks: list[datetime]) -> list[str]:
    """Return ticks in local time, each with its date if that differs from the one before."""
    days = [None, *(tick.date() for tick in ticks)]
    return [
        f"{tick:%H:%M}" if tick.date() == day else f"{tick:%Y-%m-%d %H:%M}"
        for tick, day in zip(ticks, days, strict=False)
    ]
