"""stanchion shards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from stanchion.copying.moving import AT_ONCE, Moved, PartitionMover
from stanchion.copying.planning import Placed, Plans
from stanchion.copying.transfer import SETTLE
from stanchion.core.names.partition_names import numbers_in, ranges_of
from stanchion.core.text.durations import duration
from stanchion.ops.cli.console.output import Cell, Column, Output, count_cell
from stanchion.ops.cli.console.root import STORE, cli
from stanchion.ops.cli.console.session import Exit, Session, command
from stanchion.ops.cli.store.copy import Bars

shards_cli = typer.Typer(help="Show which shard has which partitions; move them while jobs flow.")
cli.add_typer(shards_cli, name="shards", rich_help_panel=STORE)

_PLACES = [
    Column("QUEUE", shrinks=True, keeps_ends=True),
    Column("SHARD"),
    Column("PARTITIONS", shrinks=True, keeps_ends=True),
    Column("JOBS", right=True),
    Column("MOVES TO"),
    Column("PHASE"),
]
_MOVED = [
    Column("PARTITION", shrinks=True, keeps_ends=True),
    Column("FROM"),
    Column("TO"),
    Column("JOBS", right=True),
    Column("NOW"),
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which partitions would move.")]
Wait = Annotated[
    str,
    typer.Option("--wait", metavar="TIME", help="How long jobs that run in the old shard hold their partition back."),
]
Settle = Annotated[
    str,
    typer.Option("--settle", metavar="TIME", help="How long other programs get to notice; 0 is safe if none runs."),
]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, help="Partitions that move together.")]


@command(shards_cli, group=True)
def shards(
    session: Session,
    toml: Annotated[bool, typer.Option("--toml", help="Print the partitions as the file of the map has them.")] = False,
) -> Exit:
    """Show which shard has which partitions, with their live jobs and moves; exit code 3 while moves are on record."""
    plans = Plans(session.app.store)
    places, out = plans.places(), session.out
    if toml:
        print(_toml(places, plans.over.shard_map().default))
    elif out.as_json:
        out.json_list(one._asdict() for one in places)
    else:
        out.table(_PLACES, list(map(_row, places)))
    return Exit.UNFINISHED if any(one.to for one in places) else Exit.OK


@command(shards_cli, "move")
def move(
    session: Session,
    queue: Annotated[str, typer.Argument(help="A partitioned queue.")],
    partitions: Annotated[str, typer.Argument(help="Numbers of partitions, such as 4-7,9.")],
    to: Annotated[str, typer.Argument(help="The name of the shard that gets them.")],
    dry_run: DryRun = False,
    wait: Wait = "60s",
    settle: Settle = f"{SETTLE:g}s",
    at_once: AtOnce = AT_ONCE,
) -> Exit:
    """Move partitions to another shard, while jobs flow.

    stanchion shards move orders 4-7 three --url shards:///shards.toml
    """
    plans, options = Plans(session.app.store), _options(wait, settle, at_once)
    return _put(session, plans, plans.some(queue, numbers_in(partitions, queue)), to, options, dry_run=dry_run)


@command(shards_cli, "split")
def split(
    session: Session,
    shard: Annotated[str, typer.Argument(help="The shard that has too much.")],
    to: Annotated[str, typer.Argument(help="The shard that gets half of its partitions.")],
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="Only this queue's.")] = None,
    dry_run: DryRun = False,
    wait: Wait = "60s",
    settle: Settle = f"{SETTLE:g}s",
    at_once: AtOnce = AT_ONCE,
) -> Exit:
    """Move half of the partitions that a shard has of each queue to another shard, while jobs flow.

    stanchion shards split one three --url shards:///shards.toml
    """
    plans, options = Plans(session.app.store), _options(wait, settle, at_once)
    return _put(session, plans, plans.half(shard, queue or ()), to, options, dry_run=dry_run)


@command(shards_cli, "resume")
def resume(session: Session, wait: Wait = "60s", settle: Settle = f"{SETTLE:g}s", at_once: AtOnce = AT_ONCE) -> Exit:
    """Continue recorded moves, after an interruption or for partitions that had to wait."""
    plans, options = Plans(session.app.store), _options(wait, settle, at_once)
    if plans.over.shard_map().moving:
        session.audit("resume moves", "shards")
    return _run(session, plans, options)


@command(shards_cli, "abandon")
def abandon(session: Session) -> Exit:
    """Remove recorded moves that have not begun; `resume` finishes the ones in progress."""
    plans = Plans(session.app.store)
    session.audit("abandon moves", "shards")
    gone = plans.abandon()
    session.out.done(f"{gone} planned moves abandoned", {"abandoned": gone})
    return Exit.OK if gone else Exit.FAILED


def _put(
    session: Session, plans: Plans, partitions: Sequence[str], to: str, options: Mapping[str, object], *, dry_run: bool
) -> Exit:
    if dry_run:
        shard_map, live = plans.over.shard_map(), plans.live(partitions)
        would = [Moved(name, shard_map.of(name), to, live[name]) for name in partitions if shard_map.of(name) != to]
        _show(session.out, would, "would move")
        return Exit.OK
    session.audit("move partitions", ", ".join(partitions), note=f"→ {to}")
    plans.put(partitions, to)
    return _run(session, plans, options)


def _run(session: Session, plans: Plans, options: Mapping[str, Any]) -> Exit:
    out, moving = session.out, plans.over.shard_map().moving
    if not moving:
        out.say("no partitions to move")
        return Exit.FAILED
    with out.progress() as progress:
        bars = Bars(out, progress, plans.live(list(moving)), "moving")
        try:
            moved = PartitionMover(plans.over, **options, watcher=bars).run()
        except KeyboardInterrupt:
            out.say("stopped: partitions may wait between two shards; continue with `stanchion shards resume`")
            raise
    _show(out, moved, "moved")
    return Exit.UNFINISHED if any(one.note for one in moved) else Exit.OK


def _options(wait: str, settle: str, at_once: int) -> dict[str, object]:
    return {"wait": duration(wait, "--wait"), "settle": duration(settle, "--settle"), "at_once": at_once}


def _show(out: Output, moves: Sequence[Moved], done: str) -> None:
    if out.as_json:
        out.json_list(map(asdict, moves))
        return
    out.table(_MOVED, [_result(one, done) for one in moves])
    for one in moves:
        if one.note:
            out.say(f"{one.partition}: {one.note}")


def _result(one: Moved, done: str) -> list[Cell]:
    now = Text("waits", "yellow") if one.note else Text(done, "green")
    return [one.partition, one.source, one.to, count_cell(one.jobs, "green"), now]


def _row(one: Placed) -> list[Cell]:
    return [one.queue, one.shard, one.partitions, count_cell(one.live, "green"), one.to or "", one.phase or ""]


def _toml(places: Sequence[Placed], default: str) -> str:
    """Return the tables of partitions as the file of the map has them."""
    numbers: dict[str, dict[str, list[int]]] = {}
    for one in places:
        if one.shard != default:
            numbers.setdefault(one.queue, {}).setdefault(one.shard, []).extend(numbers_in(one.partitions, one.queue))
    lines: list[str] = []
    for queue, shards_of in numbers.items():
        lines += [f"[partitions.{json.dumps(queue)}]"]
        lines += [f'{json.dumps(shard)} = "{ranges_of(sorted(some))}"' for shard, some in shards_of.items()]
    return "\n".join(lines)
