"""The parts of a flow as a graph: jobs, groups and their links.

chain(a, group([b, c]), d)      a ─┬─► b ─┬─► group ───► d
                                   └─► c ─┘
"""

from __future__ import annotations

from itertools import count

from stanchion.core.graph.model import Graph, GraphNode, Link
from stanchion.flows.tree import FlowPart

MEMBERS_SHOWN = 100
"""Members of a group that are drawn; one more node shows how many are left out."""


def graph_of(flow: FlowPart) -> Graph:
    """Return the graph of a flow; dashed links lead to the calls made on failure."""
    drawing = _Drawing()
    entries, _ = drawing.add(flow)
    return Graph(f"Flow {flow.id}", drawing.nodes, drawing.links, entries, frozenset(drawing.dashed))


class _Drawing:
    def __init__(self) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.links: dict[str, list[str]] = {}
        self.dashed: set[Link] = set()
        self._numbers = count(1)

    def add(self, part: FlowPart) -> tuple[list[str], str]:
        """Add a part; return its first nodes and its last one."""
        if part.kind == "chain" and part.members:
            first, last = self._chain(part)
        elif part.kind in ("group", "barrier"):
            first, last = self._group(part)
        else:
            last = self._node(part.label or "job", part.state, part.state)
            first = [last]
        if part.on_failure is not None:
            call = part.on_failure
            note = ", ".join(word for word in ("on failure", call.state) if word)
            self._link(last, self._node(call.label or "job", note, call.state), dashed=True)
        return first, last

    def _chain(self, part: FlowPart) -> tuple[list[str], str]:
        first, last = self.add(part.members[0])
        for member in part.members[1:]:
            begins, ends = self.add(member)
            for name in begins:
                self._link(last, name)
            last = ends
        return first, last

    def _group(self, part: FlowPart) -> tuple[list[str], str]:
        shown = part.members[:MEMBERS_SHOWN]
        added = [self.add(member) for member in shown]
        first, ends = [name for begins, _ in added for name in begins], [last for _, last in added]
        if part.size > len(shown):
            ends.append(self._node(f"{part.size - len(shown):,} more", "", ""))
            first.append(ends[-1])
        more = ", open" if part.is_open else ""
        last = self._node(part.label, f"{part.state}, {part.ended:,} of {part.size:,}{more}", part.state)
        for name in ends:
            self._link(name, last)
        return first or [last], last

    def _node(self, label: str, note: str, state: str) -> str:
        name = f"part{next(self._numbers)}"
        shown = "".join(letter if letter.isprintable() else " " for letter in label)
        self.nodes[name], self.links[name] = GraphNode(shown, note, state or "planned"), []
        return name

    def _link(self, one: str, to: str, *, dashed: bool = False) -> None:
        self.links[one].append(to)
        if dashed:
            self.dashed.add((one, to))
