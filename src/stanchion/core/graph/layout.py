"""The layout of a graph: columns from left to right, with followers further right.

A link over several columns gets a place in each of them, so that it passes between the nodes there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from stanchion.core.graph.model import Graph, Link

Place = tuple[str, ...]
"""An element of a column: a node, as (name,), or a passing link, as (from, to, column)."""

PASSES = 6


@dataclass
class Layout:
    """`columns`: their places from top to bottom; `routes`: the places that each forward link passes through."""

    graph: Graph
    back: list[Link]
    """Backward links: to a node that leads to this one, or to the node itself."""
    columns: list[list[Place]] = field(default_factory=list)
    routes: dict[Link, list[Place]] = field(default_factory=dict)
    at: dict[Place, tuple[int, float]] = field(default_factory=dict)
    """The column and row of each place; rows are at least 1 apart."""


def laid_out(graph: Graph) -> Layout:
    """Return the places of all nodes and links."""
    back, order = _searched(graph)
    layout, backwards = Layout(graph, back), set(back)
    forward = [(one, to) for one in graph.links for to in graph.links[one] if (one, to) not in backwards]
    column = _columns(graph, order, backwards)
    layout.columns = [[] for _ in range(max(column.values()) + 1)]
    for name in graph.nodes:
        layout.columns[column[name]].append((name,))
    for one, to in forward:
        between: list[Place] = [(one, to, str(n)) for n in range(column[one] + 1, column[to])]
        for place in between:
            layout.columns[int(place[2])].append(place)
        layout.routes[one, to] = [(one,), *between, (to,)]
    _order(layout)
    _rows(layout)
    return layout


def _searched(graph: Graph) -> tuple[list[Link], list[str]]:
    """Search depth first; return the backward links, and all nodes in topological order of the forward links."""
    back: list[Link] = []
    finished: dict[str, None] = {}
    for entry in graph.entries:
        if entry in finished:
            continue
        path = {entry: iter(graph.links[entry])}
        while path:
            name = next(reversed(path))
            target = next(path[name], None)
            if target is None:
                finished[name] = None
                del path[name]
            elif target in path:
                back.append((name, target))
            elif target not in finished:
                path[target] = iter(graph.links[target])
    return back, list(reversed(finished))


def _columns(graph: Graph, order: Sequence[str], back: set[Link]) -> dict[str, int]:
    """Return the column of each node: one to the right of its last predecessor."""
    column = dict.fromkeys(graph.nodes, 0)
    for one in order:
        for to in graph.links[one]:
            if (one, to) not in back:
                column[to] = max(column[to], column[one] + 1)
    return column


def _neighbours(layout: Layout) -> dict[Place, tuple[list[Place], list[Place]]]:
    """Return the neighbours of each place on the left and on the right."""
    found: dict[Place, tuple[list[Place], list[Place]]] = {
        place: ([], []) for column in layout.columns for place in column
    }
    for route in layout.routes.values():
        for one, to in pairwise(route):
            found[one][1].append(to)
            found[to][0].append(one)
    return found


def _order(layout: Layout) -> None:
    """Order each column by the positions of neighbours, in both directions, so that few links cross."""
    neighbours = _neighbours(layout)
    for pass_ in range(PASSES):
        side = pass_ % 2
        rank = {place: n for each in layout.columns for n, place in enumerate(each)}
        for column in reversed(layout.columns) if side else layout.columns:
            middle = {
                place: fmean(rank[one] for one in joined) if (joined := neighbours[place][side]) else float(rank[place])
                for place in column
            }
            column.sort(key=middle.__getitem__)
            rank.update({place: n for n, place in enumerate(column)})


def _rows(layout: Layout) -> None:
    """Assign rows: level with the neighbours, as far as space permits."""
    neighbours = _neighbours(layout)
    row: dict[Place, float] = {}
    for column in layout.columns:
        row.update({place: n - (len(column) - 1) / 2 for n, place in enumerate(column)})
    for pass_ in range(PASSES):
        side = pass_ % 2
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
    """Yield rows near the preferred ones, in order, each at least 1 below the one before."""
    rows: list[float] = []
    for wish in wished:
        rows.append(max(wish, rows[-1] + 1) if rows else wish)
    excess = fmean(rows) - fmean(wished) if rows else 0.0
    yield from (row - excess for row in rows)
