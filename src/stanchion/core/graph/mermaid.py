"""A graph as a Mermaid flowchart, which GitHub, GitLab and many wikis render."""

from __future__ import annotations

from stanchion.core.graph.layout import Layout
from stanchion.core.graph.model import PAINTS, GraphNode

_ESCAPED = {ord(letter): f"#{ord(letter)};" for letter in '#"<>&`\\'}


def as_mermaid(layout: Layout) -> str:
    """Return the flowchart; nodes are numbered, as names such as `end` are reserved in Mermaid."""
    graph = layout.graph
    numbered = {name: f"n{number}" for number, name in enumerate(graph.nodes)}
    dashed = graph.dashed | set(layout.back)
    lines = ["---", f'title: "{_escaped(graph.title)}"', "---", "flowchart LR"]
    lines += [f'    {numbered[name]}["{_text(node)}"]' for name, node in graph.nodes.items()]
    lines += [
        f"    {numbered[one]} {'-.->' if (one, to) in dashed else '-->'} {numbered[to]}"
        for one, targets in graph.links.items()
        for to in targets
    ]
    for kind in dict.fromkeys(node.kind for node in graph.nodes.values() if node.kind in PAINTS):
        members = ",".join(numbered[name] for name, node in graph.nodes.items() if node.kind == kind)
        lines.append(f"    classDef {kind}Kind fill:{PAINTS[kind].fill},stroke:{PAINTS[kind].border},color:#1c2430")
        lines.append(f"    class {members} {kind}Kind")
    return "\n".join(lines) + "\n"


def _text(node: GraphNode) -> str:
    label = _escaped(node.label)
    return f"{label}<br/><small>{_escaped(node.note)}</small>" if node.note else label


def _escaped(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPED)
