"""stanchion report."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from stanchion.app import Stanchion
from stanchion.core import environment
from stanchion.errors import MissingExtra
from stanchion.ops.cli.console.given import past
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import tell_unknown
from stanchion.ops.cli.console.session import Exit, Session, command

if TYPE_CHECKING:
    from stanchion.reporting.report import Report


@command(cli, "report", panel=LOOK)
def report(
    session: Session,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The folder of an archive; by default only the store's history."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path("report.html"),
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue. Repeatable; by default all queues.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Finished since: 2h (ago) or an ISO 8601 time, in UTC."),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Finished before then.")] = None,
    title: Annotated[str, typer.Option("--title", help="The title of the page.")] = "Stanchion report",
    spark: Annotated[bool, typer.Option("--spark", help="Let Spark count, as it does with an archive.")] = False,
) -> Exit:
    """Write a page about finished jobs of the store and an archive: throughput, delays, errors, service levels.

    Without a store, it covers only the archive. With --json, print the figures instead.
    """
    now = datetime.now(UTC)
    bounds = _Bounds(past(since, now, "--since"), past(until, now, "--until"), tuple(queue or ()), title)
    if folder is None and queue:
        tell_unknown(session, queue)
    if folder is None and not spark:
        made = _counted(session, bounds)
    else:
        made = _by_spark(session.app if _has_store(session) or folder is None else None, folder, bounds)
    if session.out.as_json:
        session.out.json(json.loads(made.json()))
    else:
        out.write_text(made.html(), encoding="utf-8")
        session.out.line(f"wrote {out}: {made.jobs:,} finished jobs")
    if not made.jobs:
        session.out.say("no job has finished in this time")
    return Exit.OK if made.jobs else Exit.FAILED


class _Bounds(NamedTuple):
    """Scope and title of a report."""

    since: datetime | None
    until: datetime | None
    queues: tuple[str, ...]
    title: str


def _counted(session: Session, bounds: _Bounds) -> Report:
    """Let Python count; if there are too many jobs, Spark where it is installed."""
    from stanchion.reporting.report import TooManyJobs, report

    try:
        with session.out.progress() as progress:
            bar = progress.add_task("counted", total=None, note="")
            return report(session.app, **bounds._asdict(), counted=lambda count: progress.update(bar, completed=count))
    except TooManyJobs as error:
        try:
            return _by_spark(session.app, None, bounds)
        except MissingExtra:
            raise error from None


def _by_spark(app: Stanchion | None, folder: Path | None, bounds: _Bounds) -> Report:
    from stanchion.spark import report

    return report(app, folder, **bounds._asdict())


def _has_store(session: Session) -> bool:
    return bool(session.url or session.app_path or os.environ.get(environment.URL))
