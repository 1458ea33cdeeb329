"""A graph for drawing, independent of what its nodes represent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Link = tuple[str, str]
"""The names of two nodes: from, to."""

PLAIN = "middle"


class Paint(NamedTuple):
    """The fill and border of a kind of node, and its fill on a dark page."""

    fill: str
    border: str
    dark_fill: str


PLAIN_PAINT = Paint("#fff", "#8a97a8", "#1c2430")
PAINTS = {
    "end": Paint("#eef7f0", "#3f9a5f", "#183022"),
    "spark": Paint("#fdf3e6", "#d98a2b", "#38290f"),
    "table": Paint("#eaf1fb", "#3b78c4", "#16263c"),
    "done": Paint("#eef7f0", "#3f9a5f", "#183022"),
    "running": Paint("#eaf1fb", "#3b78c4", "#16263c"),
    "dead": Paint("#fbecec", "#c24b4b", "#3a1a1a"),
    "failed": Paint("#fbecec", "#c24b4b", "#3a1a1a"),
    "cancelled": Paint("#eceef1", "#8a97a8", "#2a313b"),
}
"""Paints by kind; nodes of other kinds are plain."""


class GraphNode(NamedTuple):
    """`label`: the displayed name; `note`: special properties, below the label; `kind`: see PAINTS.

    `text_note`: the note after the label in text drawings.
    """

    label: str
    note: str = ""
    kind: str = PLAIN
    text_note: str = ""


class Graph(NamedTuple):
    """`nodes` by name; `links`: the followers of each node, in order; `entries`: the nodes where the drawing starts.

    Each node can be reached from an entry. `dashed`: links outside of the usual route.
    """

    title: str
    nodes: Mapping[str, GraphNode]
    links: Mapping[str, Sequence[str]]
    entries: Sequence[str]
    dashed: frozenset[Link] = frozenset()
