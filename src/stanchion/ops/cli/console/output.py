"""Tables for people, plain columns for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text

from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.human import one_line
from stanchion.stores.records.queues import Sizes

if TYPE_CHECKING:
    from rich.progress import Progress

STATE_STYLES = {
    JobState.SCHEDULED: "blue",
    JobState.READY: "cyan",
    JobState.WAITING: "magenta",
    JobState.RUNNING: "yellow",
    JobState.DONE: "green",
    JobState.DEAD: "bold red",
    JobState.CANCELLED: "bright_black",
}

_LIVE = (JobState.READY, JobState.SCHEDULED, JobState.WAITING, JobState.RUNNING)

Cell = str | Text

_GAP = 2
_PLENTY = 160
_NARROW, _NARROWEST = 10, 6
"""Truncated widths of a column, before and after the columns that keep their width."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    `right`: right-aligned, for numbers. `shrinks`: truncated if space is scarce; other columns keep their whole
    text. `keeps`: truncated to this width first, and below it last. `keeps_end`: truncated at the start;
    `keeps_ends`: in its middle, for names that differ at either end. `short`: width after its middle is cut, before
    others shrink; 0: not cut. `from_width`: left out on narrower terminals, and where it is empty.
    """

    title: str
    right: bool = False
    shrinks: bool = False
    keeps: int = 0
    keeps_end: bool = False
    keeps_ends: bool = False
    short: int = 0
    from_width: int = 0


class Output:
    """The output of a command: results to stdout, remarks and progress to stderr."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, soft_wrap=False)
        self.remarks = Console(stderr=True, highlight=False, soft_wrap=True)

    @property
    def width(self) -> int:
        """The width in columns; generous without a terminal."""
        return self.console.width if self.console.is_terminal else _PLENTY

    def json(self, value: object) -> None:
        """Print one JSON value."""
        print(json.dumps(value, indent=2))

    def json_line(self, value: object) -> None:
        """Print one JSON value on its own line, and flush."""
        print(json.dumps(value), flush=True)

    def json_list(self, values: Iterable[object]) -> int:
        """Print a JSON array item by item; return the number of items."""
        count = 0
        for count, value in enumerate(values, 1):
            lead = "[\n  " if count == 1 else ",\n  "
            sys.stdout.write(lead + json.dumps(value, indent=2).replace("\n", "\n  "))
        sys.stdout.write("\n]\n" if count else "[]\n")
        return count

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        """Print a table: styled and fitted on a terminal, plain and complete elsewhere."""
        if self.console.is_terminal:
            self.console.print(fitted(columns, rows, self.width), no_wrap=True, overflow="ellipsis")
        else:
            print(plain(columns, rows), end="")

    def first(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], most: int) -> None:
        """Print a table of the first rows, and a remark if there are more."""
        self.table(columns, rows[:most])
        if len(rows) > most:
            self.say(f"the first {most:,} of {len(rows):,}; --limit shows more, --json all")

    def show(self, what: RenderableType) -> None:
        """Print a Rich renderable to stdout; without wrapping outside a terminal."""
        self.console.print(what, soft_wrap=not self.console.is_terminal)

    def say(self, text: str) -> None:
        """Print a remark for people to stderr."""
        self.remarks.print(one_line(text), markup=False)

    def line(self, text: str) -> None:
        """Print one line, without wrapping."""
        print(one_line(text))

    def done(self, text: str, value: object) -> None:
        """Report an action: a line for people, or the value as JSON."""
        if self.as_json:
            self.json(value)
        else:
            self.line(text)

    def progress(self, *, of_bytes: bool = False) -> AbstractContextManager[Progress]:
        """Return a progress bar on stderr, shown only on a terminal."""
        from rich import progress

        amount = progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn()
        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=28),
            amount,
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=self.remarks if self.remarks.is_terminal else Console(quiet=True),
            transient=True,
        )


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Text:
    """Return a styled table with the columns that fit a terminal of this width."""
    filled = [any(_text(row[number]).plain for row in rows) for number in range(len(columns))]
    shown = [
        number
        for number, column in enumerate(columns)
        if column.from_width <= width and (filled[number] or not column.from_width)
    ]
    kept = [columns[number] for number in shown]
    cells = [[_text(row[number]) for number in shown] for row in rows]
    widths = _widths(kept, cells, width)
    heads = [Text(column.title, "bold bright_black") for column in kept]
    lines = [Text(" " * _GAP).join(map(_placed, row, kept, widths)) for row in (heads, *cells)]
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[Text]], width: int) -> list[int]:
    """Return the width of each column; after short ones the widest shrinkable columns are reduced first."""
    widths = [
        max([len(column.title), *(row[number].cell_len for row in cells)]) for number, column in enumerate(columns)
    ]
    excess = sum(widths) + _GAP * (len(columns) - 1) - width
    for number, column in enumerate(columns):
        if excess > 0 and 0 < column.short < widths[number]:
            excess -= widths[number] - column.short
            widths[number] = column.short
    shrinking = [number for number, column in enumerate(columns) if column.shrinks]
    kept = [number for number in shrinking if columns[number].keeps]
    others = [number for number in shrinking if not columns[number].keeps]
    steps = [*(([number], columns[number].keeps) for number in kept), (others, _NARROW), (shrinking, _NARROWEST)]
    for some, least in steps:
        while excess > 0 and some:
            widest = max(some, key=widths.__getitem__)
            if widths[widest] <= least:
                break
            widths[widest] -= 1
            excess -= 1
    return widths


def _placed(cell: Text, column: Column, width: int) -> Text:
    """Return a cell truncated or padded to its column's width."""
    if cell.cell_len > width and column.keeps_end:
        return Text("…") + cell[1 - width :]
    if cell.cell_len > width and column.keeps_ends:
        tail = width // 2
        return cell[: width - tail - 1] + Text("…") + cell[-tail:]
    if cell.cell_len > width and column.short:
        return cell[: width - 5] + Text("…") + cell[-4:]
    cell = cell.copy()
    cell.truncate(width, overflow="ellipsis")
    cell.align("right" if column.right else "left", width)
    return cell


def plain(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table as aligned text."""
    cells = [[column.title for column in columns], *([_text(cell).plain for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(parts).rstrip() + "\n")
    return "".join(lines)


def state_cell(state: JobState | str) -> Text:
    """Return a state in its colour."""
    return Text(str(state), style=STATE_STYLES.get(JobState(state), ""))


def count_cell(count: int, style: str = "") -> Text:
    """Return a number; zeros are dimmed."""
    return Text(f"{count:,}", style=style if count else "bright_black")


def size_cells(sizes: Sizes) -> list[Cell]:
    """Return the numbers of ready, scheduled, waiting and running jobs."""
    return [count_cell(getattr(sizes, state), STATE_STYLES[state]) for state in _LIVE]


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(one_line(cell))
