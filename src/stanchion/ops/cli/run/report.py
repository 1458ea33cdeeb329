"""stanchion report."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stanchion.ops.cli.console.given import past
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command


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
) -> Exit:
    """Write a page about finished jobs of the store and an archive: throughput, delays, errors, service levels.

    Without a store, it covers only the archive. With --json, print the figures instead.
    """
    from stanchion.spark import report as make

    now = datetime.now(UTC)
    made = make(
        session.app if _has_store(session) or folder is None else None,
        folder,
        since=past(since, now, "--since"),
        until=past(until, now, "--until"),
        queues=queue or (),
        title=title,
    )
    if session.out.as_json:
        session.out.json(json.loads(made.json()))
    else:
        out.write_text(made.html(), encoding="utf-8")
        session.out.line(f"wrote {out}: {made.jobs:,} finished jobs")
    if not made.jobs:
        session.out.say("no job has finished in this time")
    return Exit.OK if made.jobs else Exit.FAILED


def _has_store(session: Session) -> bool:
    return bool(session.url or session.app_path or os.environ.get("STANCHION_URL"))
