"""Tables on the screen, and a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.scale.costs import Costs, Size
from benchmarks.scale.loads import Load
from benchmarks.scale.moving import Moved, Quiet

LOADS = (
    *("layout", "receivers", "pushes", "jobs/s per shard", "statements", "messages", "manager, µs", "database, µs"),
    *("start p50, ms", "p99", "managers, cores", "stamps, cores"),
)
QUIETS = (
    *(
        "layout",
        "managers",
        "reads/s per store",
        "writes/s",
        "rows/s",
        "CPU of a manager",
        "slices, least",
        "mean",
        "most",
    ),
    *("sessions", "memory, MiB"),
)
MOVES = (
    *("layout", "managers", "one", "moved", "all served after, s", "slice idle p50, s", "p99", "max"),
    *("wait of a job p50, s", "p99", "max", "reads", "rows read"),
)


def show(console: Console, loads: Sequence[Load], quiets: Sequence[Quiet], moves: Sequence[Moved]) -> None:
    """Print the tables."""
    console.print(_table("Cost of a job", LOADS, map(_load, loads)))
    console.print(_table("Leadership while nothing changes", QUIETS, map(_quiet, quiets)))
    console.print(_table("Managers that come and go", MOVES, map(_move, moves)))


def save(path: Path, seed: int, size: Size, costs: Costs, **results: Iterable[Any]) -> None:
    """Write all that went in and came out."""
    found = {name: [one._asdict() for one in rows] for name, rows in results.items()}
    content = {"seed": seed, "size": size._asdict(), "costs": costs._asdict(), **found}
    path.write_text(json.dumps(content, indent=1) + "\n")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _load(one: Load) -> list[str]:
    p50, p99, _ = one.starts
    return [
        *(one.layout, one.receivers, one.pushes, f"{one.rate:,.0f}", f"{one.statements:.2f}", f"{one.messages:.2f}"),
        *(f"{one.manager * 1e6:.0f}", f"{one.database * 1e6:.0f}", f"{p50 * 1e3:.1f}", f"{p99 * 1e3:.1f}"),
        *(f"{one.managers:,.1f}", f"{one.stamps:,.1f}"),
    ]


def _quiet(one: Quiet) -> list[str]:
    least, mean, most = one.slices
    return [
        *(one.layout, f"{one.managers}", f"{one.reads:,.1f}", f"{one.writes:,.1f}", f"{one.rows:,.0f}"),
        *(f"{one.cpu:.1%}", f"{least}", f"{mean:.1f}", f"{most}", f"{one.sessions:.0f}", f"{one.memory / 2**20:,.0f}"),
    ]


def _move(one: Moved) -> list[str]:
    return [
        *(one.layout, f"{one.managers}", one.event, f"{one.share:.3f}", f"{one.until:.2f}"),
        *(f"{seconds:.2f}" for seconds in (*one.gaps, *one.waits)),
        *(f"{one.reads:,}", f"{one.rows:,}"),
    ]
