"""stanchion pipeline backfill, and the list of backfills."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from stanchion.context import context_of
from stanchion.core.text.durations import duration
from stanchion.core.times import iso, moment
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.given import past
from stanchion.ops.cli.console.output import Column
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.run.pipeline import Target, named_pipeline, pipeline_cli
from stanchion.pipelines.backfilling.record import REASONS, Backfill

_WHOLE = 100


@command(pipeline_cli, "backfill")
def backfill(
    session: Session,
    target: Target,
    station: Annotated[str, typer.Argument(metavar="STATION", help="The station to begin at.")],
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Items that came to the station since: 2h (ago) or ISO 8601.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Items that came before then; by default now.")
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option("--archive", metavar="DIR", help="Read items of this archive, not of history."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name under which the backfill runs once; repeat it to resume.")
    ] = None,
    max_live: Annotated[
        int | None, typer.Option("--max-live", min=1, help="Wait while the stations hold more live items than this.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="Priority of the copies; default: each item's own.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> Exit:
    """Run a station and the stations after it again, with today's code, over the items of a time window.

    stanchion pipeline backfill etl:etl clean --since 2031-05-01 --until 2031-05-02 --dry-run
    """
    etl, out = named_pipeline(session, target), session.out
    now, subject = moment(context_of(etl).store.now()), f"{etl.name}.{station}"
    if name is None and not dry_run and any(map(_is_relative, (since, until))):
        raise InvalidInput(
            "give --name: a time that is counted from now names another window each time, and a repetition would run "
            "its items again; or give times in ISO 8601"
        )
    if not dry_run:
        session.audit("backfill", subject, note=name or "", store=context_of(etl).store)
    with out.progress() as progress:
        bar = progress.add_task("counted" if dry_run else "enqueued", total=_WHOLE, note="")

        def show(done: Backfill) -> None:
            progress.update(bar, completed=round(_WHOLE * done.fraction), note=f"{done.enqueued:,} items")

        done = etl.backfill(
            station,
            since=past(since, now, "--since"),
            until=past(until, now, "--until"),
            source=archive,
            name=name,
            dry_run=dry_run,
            max_live=max_live,
            priority=priority,
            watch=show,
        )
    if not dry_run and not done.was_done:
        session.audit("backfill: finished", subject, done.enqueued, done.name, store=context_of(etl).store)
    _report(session, done)
    return Exit.OK


def _report(session: Session, done: Backfill) -> None:
    for told in done.told:
        session.out.say(told)
    if done.purged_before is not None:
        lack = "history may lack items of this window that finished before then; an archive (--archive) may have them"
        session.out.say(f"purged before {_time(done.purged_before)}: {lack}")
    session.out.done(_summary(done), _as_json(done))


@command(pipeline_cli, "backfills")
def backfills(session: Session, target: Target) -> None:
    """List the backfills of a pipeline, the latest first; one that is not done runs, or was cut off: repeat it."""
    found, out = named_pipeline(session, target).backfills(), session.out
    if out.as_json:
        out.json([_as_json(one) for one in found])
        return
    rows = [
        (
            one.name,
            one.station,
            "the beginning" if one.since is None else _time(one.since),
            _time(one.until),
            one.source or "history",
            f"{one.enqueued:,}",
            "not done" if one.done_at is None else _time(one.done_at),
        )
        for one in found
    ]
    out.table(_COLUMNS, rows)


_COLUMNS = (
    Column("NAME", shrinks=True, keeps=20),
    Column("STATION", shrinks=True, keeps=10),
    Column("SINCE"),
    Column("UNTIL"),
    Column("SOURCE", shrinks=True, keeps=10, keeps_end=True),
    Column("ENQUEUED", right=True),
    Column("DONE"),
)


def _is_relative(text: str | None) -> bool:
    try:
        return text is not None and duration(text, "a time") >= 0
    except InvalidInput:
        return False


def _summary(done: Backfill) -> str:
    if done.was_done:
        return f"nothing to do: backfill {done.name} was done {_time(done.done_at)}; give another --name to do it again"
    left = [f"{count:,} {REASONS[reason]}" for reason, count in done.left_out.items()]
    items = f"{done.enqueued:,} {'item' if done.enqueued == 1 else 'items'}"
    lead = "would enqueue" if done.dry_run else "enqueued"
    return f"{lead}: {items} at {done.station}{'; left out: ' if left else ''}{'; '.join(left)}"


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _as_json(done: Backfill) -> dict[str, object]:
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in done._asdict().items()}
