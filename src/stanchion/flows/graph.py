"""The parts of a flow as a graph: jobs, groups and their links.

chain(a, group([b, c]), d)      a ─┬─► b ─┬─► group ───► d
                                   └─► c ─┘
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Protocol

from stanchion.core.graph.model import Graph, GraphNode, Link
from stanchion.flows.tree import FlowPart

MEMBERS_SHOWN = 100
"""Members of a group that are drawn; one more node shows how many are left out."""


def graph_of(flow: FlowPart) -> Graph:
    """Return the graph of a flow; dashed links lead to the calls made on failure."""
    made = _Nodes()
    entries, _ = draw(flow, made)
    return Graph(f"Flow {flow.id}", made.nodes, made.links, entries, frozenset(made.dashed))


Drawn = tuple[list[str], str]
"""The first nodes of a part of a flow, and its last one, by their names."""


class Maker(Protocol):
    """Makes the nodes and links of a drawing. A node is made when it is asked for, and returned by its name."""

    def job(self, part: FlowPart) -> str:
        """Make the node of a job, or of a part without members."""
        ...

    def failure(self, call: FlowPart) -> str:
        """Make the node of what is called on failure."""
        ...

    def members(self, part: FlowPart, draw: Callable[[FlowPart], Drawn]) -> list[Drawn]:
        """Draw the members of a group, each of them or some."""
        ...

    def group(self, part: FlowPart) -> str:
        """Make the node at which the members of a group end."""
        ...

    def link(self, one: str, to: str, *, dashed: bool = False) -> None:
        """Link two nodes."""
        ...


def draw(part: FlowPart, maker: Maker) -> Drawn:
    """Draw a part of a flow and all within it: a chain as a row, the members of a group side by side."""

    def within(one: FlowPart) -> Drawn:
        return draw(one, maker)

    if part.kind == "chain" and part.members:
        first, last = within(part.members[0])
        for member in part.members[1:]:
            begins, ends = within(member)
            for name in begins:
                maker.link(last, name)
            last = ends
    elif part.kind in ("group", "barrier"):
        drawn = maker.members(part, within)
        last = maker.group(part)
        for _, end in drawn:
            maker.link(end, last)
        first = [name for begins, _ in drawn for name in begins] or [last]
    else:
        last = maker.job(part)
        first = [last]
    if part.on_failure is not None:
        maker.link(last, maker.failure(part.on_failure), dashed=True)
    return first, last


class _Nodes:
    """The nodes of a plain graph."""

    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.links: dict[str, list[str]] = {}
        self.dashed: set[Link] = set()
        self._numbers = count(1)

    def job(self, part: FlowPart) -> str:
        return self._node(part.label or "job", part.state, part.state)

    def failure(self, call: FlowPart) -> str:
        note = ", ".join(word for word in ("on failure", call.state) if word)
        return self._node(call.label or "job", note, call.state)

    def members(self, part: FlowPart, draw: Callable[[FlowPart], Drawn]) -> list[Drawn]:
        drawn = [draw(member) for member in part.members[:MEMBERS_SHOWN]]
        if part.size > len(drawn):
            name = self._node(f"{part.size - len(drawn):,} more", "", "")
            drawn.append(([name], name))
        return drawn

    def group(self, part: FlowPart) -> str:
        more = ", open" if part.is_open else ""
        return self._node(part.label, f"{part.state}, {part.ended:,} of {part.size:,}{more}", part.state)

    def link(self, one: str, to: str, *, dashed: bool = False) -> None:
        self.links[one].append(to)
        if dashed:
            self.dashed.add((one, to))

    def _node(self, label: str, note: str, state: str) -> str:
        name = f"part{next(self._numbers)}"
        shown = "".join(letter if letter.isprintable() else " " for letter in label)
        self.nodes[name], self.links[name] = GraphNode(shown, note, state or "planned"), []
        return name
