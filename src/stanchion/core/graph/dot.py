"""A graph in DOT, the language of Graphviz."""

from __future__ import annotations

from stanchion.core.graph.layout import Layout
from stanchion.core.graph.model import PAINTS, PLAIN_PAINT, GraphNode


def as_dot(layout: Layout) -> str:
    """Return the directed graph; backward links are dashed, and ignored for the ranks."""
    graph, back = layout.graph, set(layout.back)
    lines = [
        f"digraph {_quoted(graph.title)} {{",
        "    rankdir=LR",
        f'    node [shape=box style="rounded,filled" fillcolor=white color="{PLAIN_PAINT.border}"]',
        f'    edge [color="{PLAIN_PAINT.border}"]',
    ]
    lines += [f"    {_quoted(name)} [{_attributes(node)}]" for name, node in graph.nodes.items()]
    for one, targets in graph.links.items():
        for to in targets:
            shown = " [style=dashed]" if (one, to) in graph.dashed else ""
            shown = " [style=dashed constraint=false]" if (one, to) in back else shown
            lines.append(f"    {_quoted(one)} -> {_quoted(to)}{shown}")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(node: GraphNode) -> str:
    label = _quoted(node.label, node.note) if node.note else _quoted(node.label)
    paint = PAINTS.get(node.kind)
    return f"label={label}" + (f' fillcolor="{paint.fill}" color="{paint.border}"' if paint else "")


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
