"""stanchion lanes."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.ops.cli.console.output import Cell, Column
from stanchion.ops.cli.console.root import LOOK, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.look.queues import known_queues

_COLUMNS = [Column("LANE", right=True), Column("QUEUED", right=True)]


@command(cli, "lanes", panel=LOOK)
def lanes(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
) -> Exit:
    """Show the number of queued jobs, ready and scheduled, in each lane of a queue."""
    queue, out = known_queues(session, [name])[0], session.out
    depths = queue.lanes()
    if out.as_json:
        out.json_list([{"lane": lane, "queued": depth} for lane, depth in depths.items()])
    elif depths:
        rows: list[list[Cell]] = [
            ["none" if lane is None else str(lane), f"{depth:,}"] for lane, depth in depths.items()
        ]
        out.table(_COLUMNS, rows)
    else:
        out.say("no jobs are queued")
    return Exit.OK if depths else Exit.FAILED
