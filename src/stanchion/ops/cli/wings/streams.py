"""stanchion streams."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from stanchion.alerts.alerts import reading
from stanchion.context import context_of
from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import redacted
from stanchion.core.times import iso, moment
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.ops.cli.console.human import age, one_line
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.selection import ROWS, Rows
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.reads.wings.streams import StreamFigures, stream_figures
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.streams import StreamInfo, release, streams

streams_cli = typer.Typer(help="List the streams that Spark reads; give the jobs of one back to its queue.")
cli.add_typer(streams_cli, name="streams", rich_help_panel=LOOK)

_COLUMNS = [
    Column("STREAM", shrinks=True, keeps_ends=True),
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("RESERVED", right=True, from_width=100),
    Column("ACKED", right=True, from_width=100),
    Column("BEHIND", right=True),
    Column("LAST BATCH", right=True, from_width=110),
    Column("REPLAYS", right=True, from_width=120),
    Column("EPOCH", right=True, from_width=120),
    Column("SEEN", right=True),
    Column("STATE"),
    Column("ERROR", shrinks=True, keeps=48),
]
_STYLES = {"fails": "bold red", "no driver": "bold red", "repeats": "yellow", "reading": "green"}


def list_(session: Session, limit: Rows = ROWS) -> Exit:
    """List streams: the last batches reserved and acknowledged, the ready items behind, the last heartbeat, errors."""
    out, seen = session.out, reading(context_of(session.app))[0]
    if seen.trouble is not None:
        raise StoreUnavailable(seen.trouble)
    found = stream_figures(session.app.store, seen)
    if out.as_json:
        known = {one.name: one for one in streams(session.app.store)}
        out.json_list(_json(known[one.name], one) for one in found if one.name in known)
    elif found:
        out.first(_COLUMNS, [_row(one, seen.at) for one in found], limit)
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
    session.audit("release stream", name)
    released = release(store, name)
    session.out.done(f"{name}: released, with {released:,} reserved jobs", {"stream": name, "released": released})


def _json(info: StreamInfo, one: StreamFigures) -> dict[str, object]:
    last_beat = None if info.last_beat is None else iso(moment(info.last_beat))
    told = {"last_beat": last_beat, "state": one.state, "behind": one.behind, "lag": one.lag}
    return {**redacted(info._asdict()), **told}


def _row(one: StreamFigures, now: int) -> list[Cell]:
    return [
        one.name,
        one.queue,
        f"{one.reserved:,}",
        f"{one.acked:,}",
        count_cell(one.behind, STATE_STYLES[JobState.READY]),
        f"{one.jobs:,} in {spelled(one.seconds)}" if one.jobs else "",
        count_cell(one.replays, "yellow"),
        f"{one.epoch:,}",
        "" if one.beat is None else age((now - one.beat) / SECOND),
        Text(one.state, _STYLES.get(one.state, "")),
        Text(one_line(one.error), "red"),
    ]
