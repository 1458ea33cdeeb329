"""Where stations and links are in a picture: columns from left to right, what follows further to the right.

A link over several columns gets a place in each of them, so that it passes between the stations there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

Link = tuple[str, str]
Place = tuple[str, ...]
"""What is in a column: a station, as (name,), or a link that passes, as (from, to, column)."""

SWEEPS = 6


@dataclass
class Layout:
    """`columns`: their places, from top to bottom; `ways`: for each link forward the places that it goes through."""

    columns: list[list[Place]]
    ways: dict[Link, list[Place]]
    back: list[Link]
    """Links to a station at the left, or to itself."""
    at: dict[Place, tuple[int, float]] = field(default_factory=dict)
    """The column and the row of each place; rows are 1 apart or more."""


def laid_out(links: Mapping[str, Sequence[str]], entries: Sequence[str]) -> Layout:
    """Place all stations; each is reached from an entry."""
    back = _back_links(links, entries)
    forward = [(one, to) for one in links for to in links[one] if (one, to) not in back]
    column = _columns(list(links), forward)
    layout = Layout([[] for _ in range(max(column.values()) + 1)], {}, back)
    for name in links:
        layout.columns[column[name]].append((name,))
    for one, to in forward:
        between: list[Place] = [(one, to, str(n)) for n in range(column[one] + 1, column[to])]
        for place in between:
            layout.columns[int(place[2])].append(place)
        layout.ways[one, to] = [(one,), *between, (to,)]
    _order(layout)
    _rows(layout)
    return layout


def _back_links(links: Mapping[str, Sequence[str]], entries: Sequence[str]) -> list[Link]:
    back: list[Link] = []
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in done:
            return
        for target in links[name]:
            if target in (*way, name):
                back.append((name, target))
            else:
                visit(target, (*way, name))
        done.add(name)

    for entry in entries:
        visit(entry, ())
    return back


def _columns(names: Sequence[str], forward: Sequence[Link]) -> dict[str, int]:
    column = dict.fromkeys(names, 0)
    for _ in names:
        for one, to in forward:
            column[to] = max(column[to], column[one] + 1)
    return column


def _neighbours(layout: Layout) -> dict[Place, tuple[list[Place], list[Place]]]:
    """Return for each place those that it is joined with at the left, and at the right."""
    found: dict[Place, tuple[list[Place], list[Place]]] = {
        place: ([], []) for column in layout.columns for place in column
    }
    for way in layout.ways.values():
        for one, to in pairwise(way):
            found[one][1].append(to)
            found[to][0].append(one)
    return found


def _order(layout: Layout) -> None:
    """Order each column by where its places are joined, there and back, so that few links cross."""
    neighbours = _neighbours(layout)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for column in reversed(layout.columns) if side else layout.columns:
            rank = {place: n for each in layout.columns for n, place in enumerate(each)}
            middle = {
                place: fmean(rank[one] for one in joined) if (joined := neighbours[place][side]) else float(rank[place])
                for place in column
            }
            column.sort(key=middle.__getitem__)


def _rows(layout: Layout) -> None:
    """Give places their rows: level with what they are joined with, as far as there is space."""
    neighbours = _neighbours(layout)
    row: dict[Place, float] = {}
    for column in layout.columns:
        row.update({place: n - (len(column) - 1) / 2 for n, place in enumerate(column)})
    for sweep in range(SWEEPS):
        side = sweep % 2
        for column in reversed(layout.columns) if side else layout.columns:
            wished = [
                fmean(row[one] for one in joined) if (joined := neighbours[place][side]) else row[place]
                for place in column
            ]
            row.update(zip(column, _apart(wished), strict=True))
    top = min(row.values())
    for number, column in enumerate(layout.columns):
        layout.at.update({place: (number, row[place] - top) for place in column})


def _apart(wished: Sequence[float]) -> Iterator[float]:
    """Yield rows near the wished ones, in this order, each 1 below the one before at least."""
    rows: list[float] = []
    for wish in wished:
        rows.append(max(wish, rows[-1] + 1) if rows else wish)
    excess = fmean(rows) - fmean(wished) if rows else 0.0
    yield from (row - excess for row in rows)
