"""A graph to be drawn, which knows nothing of what its nodes stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Link = tuple[str, str]
"""The names of two nodes: from, to."""

PLAIN = "middle"


class Paint(NamedTuple):
    """Fill and border of a kind of nodes, and the fill on a dark page."""

    fill: str
    border: str
    dark_fill: str


PLAIN_PAINT = Paint("#fff", "#8a97a8", "#1c2430")
PAINTS = {
    "end": Paint("#eef7f0", "#3f9a5f", "#183022"),
    "spark": Paint("#fdf3e6", "#d98a2b", "#38290f"),
    "done": Paint("#eef7f0", "#3f9a5f", "#183022"),
    "running": Paint("#eaf1fb", "#3b78c4", "#16263c"),
    "dead": Paint("#fbecec", "#c24b4b", "#3a1a1a"),
    "failed": Paint("#fbecec", "#c24b4b", "#3a1a1a"),
    "cancelled": Paint("#eceef1", "#8a97a8", "#2a313b"),
}
"""By kind; nodes of other kinds are plain."""


class GraphNode(NamedTuple):
    """`label`: its name for people; `note`: what is particular to it, below the label; `kind`: see PAINTS.

    `text_note`: what text drawings say behind the label.
    """

    label: str
    note: str = ""
    kind: str = PLAIN
    text_note: str = ""


class Graph(NamedTuple):
    """`nodes` by name; `links`: for each node those that follow it, in order; `entries`: where the drawing begins.

    Each node can be reached from an entry. `dashed`: links that are not the usual route.
    """

    title: str
    nodes: Mapping[str, GraphNode]
    links: Mapping[str, Sequence[str]]
    entries: Sequence[str]
    dashed: frozenset[Link] = frozenset()
