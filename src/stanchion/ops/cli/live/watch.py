"""stanchion watch: what happens to jobs, a line per event."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from stanchion.core.checks import whole
from stanchion.core.text.printable import safe
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.feed import Feed, FeedEvent
from stanchion.feed.event import KINDS, is_position
from stanchion.ops.cli.console.given import names, optional_duration, past
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import TaskName, Tenant
from stanchion.ops.cli.console.session import Session, command


@command(cli, "watch", panel=LOOK)
def watch(
    session: Session,
    queues: Annotated[
        list[str] | None,
        typer.Option("--queues", "-q", metavar="A,B", help="Only these queues, or patterns: 'mail.*'."),
    ] = None,
    events: Annotated[
        list[str] | None,
        typer.Option("--events", "-e", metavar="A,B", help=f"Only these kinds of events: {', '.join(KINDS)}."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHERE", help="Start at a position, 2h ago, or at an ISO 8601 time; else now."),
    ] = None,
    task: TaskName = None,
    tenant: Tenant = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="End after so many events.")] = None,
    until_idle: Annotated[
        str | None,
        typer.Option("--until-idle", metavar="TIME", help="End when no event has come for so long, such as 2s."),
    ] = None,
) -> None:
    """Print the events of jobs as they happen, one per line: pushed, started, finished. Ctrl-C ends it.

    With --json each line is a JSON object; its `position` resumes after this event: --since POSITION.
    """
    if limit is not None:
        whole(limit, "--limit")
    idle = optional_duration(until_idle, "--until-idle")
    app = session.app
    begin = since if since is not None and is_position(since) else _past(session, since)
    with app.watch(names(queues), names(events) or KINDS, begin, task=task, tenant=tenant) as feed:
        try:
            _print(session, feed, limit, idle)
        except KeyboardInterrupt:
            session.out.say(f"continue with --since {feed.position}")


def _past(session: Session, since: str | None) -> datetime | None:
    try:
        return past(since, moment(session.app.store.now()), "--since")
    except InvalidInput as error:
        raise InvalidInput(f"{error}; or a position that this command has printed") from None


def _print(session: Session, feed: Feed, limit: int | None, idle: float | None) -> None:
    left = limit
    while left != 0 and (event := feed.next(idle)) is not None:
        if session.out.as_json:
            session.out.json_line(event.to_dict())
        else:
            print(safe(line_of(event)), flush=True)
        left = None if left is None else left - 1


def line_of(event: FeedEvent) -> str:
    """Return an event as one line."""
    at = event.at.isoformat(sep=" ", timespec="milliseconds")[:-6]
    if event.kind == "gap":
        return (
            f"{at}  gap       {event.queue}: events before this time may be missing, as its history does not reach back"
        )
    attempt = f"attempt {event.attempt}" if event.attempt else ""
    words = event.kind.ljust(8), str(event.state).ljust(9), event.queue, event.id or "", event.task or "", attempt
    return "  ".join([at, *(word for word in words if word)])
