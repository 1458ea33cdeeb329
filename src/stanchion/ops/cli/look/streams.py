"""stanchion streams."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from stanchion.core.times import iso, moment
from stanchion.errors import InvalidInput
from stanchion.ops.cli.console.human import age
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.streams import StreamInfo, release, streams

streams_cli = typer.Typer(help="List the streams that Spark reads; give the jobs of one back to its queue.")
cli.add_typer(streams_cli, name="streams", rich_help_panel=LOOK)

_COLUMNS = [
    Column("STREAM", shrinks=True),
    Column("QUEUE", shrinks=True),
    Column("RESERVED", right=True),
    Column("ACKED", right=True),
    Column("JOBS", right=True),
    Column("REPLAYS", right=True, from_width=100),
    Column("EPOCH", right=True),
    Column("SEEN", right=True),
    Column("DRIVER"),
]


def list_(session: Session) -> Exit:
    """List streams: the last batches reserved and acknowledged, reserved jobs, drivers so far, the last heartbeat."""
    found, out, now = streams(session.app.store), session.out, session.app.store.now()
    if out.as_json:
        out.json_list(map(_json, found))
    elif found:
        out.table(_COLUMNS, [_row(one, now) for one in found])
    else:
        out.say('no streams: spark.readStream.format("stanchion") creates one')
    return Exit.OK if found else Exit.FAILED


command(streams_cli, group=True)(list_)
command(streams_cli, "list")(list_)


@command(streams_cli, "release")
def release_(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The stream.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Release it even if its driver is live.")] = False,
) -> None:
    """Give the reserved jobs of a stream back to their queue; its driver is refused from then on."""
    store = session.app.store
    if not yes and any(one.live for one in streams(store) if one.name == name):
        raise InvalidInput(f"the driver of stream {name!r} is live, and its query would fail; add --yes to release it")
    released = release(store, name)
    session.out.done(f"{name}: released, with {released:,} reserved jobs", {"stream": name, "released": released})


def _json(one: StreamInfo) -> dict[str, Any]:
    last_beat = None if one.last_beat is None else iso(moment(one.last_beat))
    return {**one._asdict(), "last_beat": last_beat}


def _row(one: StreamInfo, now: int) -> list[Cell]:
    return [
        one.name,
        one.queue,
        f"{one.reserved:,}",
        f"{one.acked:,}",
        count_cell(one.reserved_jobs, STATE_STYLES[JobState.RUNNING]),
        count_cell(one.replays, "yellow"),
        f"{one.epoch:,}",
        "" if one.last_beat is None else age((now - one.last_beat) / SECOND),
        _driver(one),
    ]


def _driver(one: StreamInfo) -> Text:
    if one.stopped:
        return Text("fails", "red")
    return Text("live", "green") if one.live else Text("gone", "bright_black")
