"""stanchion audit."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from stanchion.core.times import iso, micros, moment
from stanchion.ops.audit import AuditLog, Entry, Wanted
from stanchion.ops.cli.console.given import past
from stanchion.ops.cli.console.output import Cell, Column
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.words import clock

_COLUMNS = [
    Column("WHEN"),
    Column("WHO", shrinks=True),
    Column("ACT"),
    Column("ON", shrinks=True, keeps=16),
    Column("JOBS", right=True),
    Column("NOTE", shrinks=True),
    Column("FROM", from_width=100),
]


@command(cli, "audit", panel=LOOK)
def audit(
    session: Session,
    who: Annotated[str, typer.Option(help="Only this person's actions, such as ana@ops-1.")] = "",
    act: Annotated[str, typer.Option(help="Only this act, such as pause, or set for all settings.")] = "",
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Done since: 2h (ago) or an ISO 8601 time, in UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Done before then.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of acts.")] = 20,
) -> Exit:
    """List who did what by the page, its API or a shell, newest first; it is kept for 90 days.

    stanchion audit --act pause --since 24h
    """
    store, out = session.app.store, session.out
    now = store.now()
    times = (past(since, moment(now), "--since"), past(until, moment(now), "--until"))
    wanted = Wanted(who, act, *(0 if at is None else micros(at) for at in times))
    found = list(islice(AuditLog(lambda: store).walk(now, wanted), limit + 1))
    shown = found[:limit]
    if out.as_json:
        out.json_list(map(_json, shown))
    elif shown:
        out.table(_COLUMNS, [_row(one, now) for one in shown])
        if len(found) > limit:
            out.say(f"the newest {limit}; --limit shows more")
    else:
        out.say("no act fits" if any(wanted) else "nothing has been done by hand yet")
    return Exit.OK if shown else Exit.FAILED


def _json(one: Entry) -> dict[str, object]:
    return {**one._asdict(), "at": iso(moment(one.at))}


def _row(one: Entry, now: int) -> list[Cell]:
    jobs = f"{one.number:,}" if one.number else ""
    return [clock(moment(one.at), moment(now)), one.who, one.act, one.subject, jobs, one.note, one.address]
