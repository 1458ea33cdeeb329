"""A graph as text.

raw ───► clean ─┬─► short
                └─► long ───► daily

↺ name   a link back to a node that leads here
name ↑   a node that is drawn further up, with all that follows it
"""

from __future__ import annotations

from stanchion.core.graph.layout import Layout


def as_text(layout: Layout) -> str:
    """Return all nodes, with the entries at the left."""
    drawing = _Drawing(layout)
    return "\n".join(line for entry in layout.graph.entries for line in drawing.block(entry))


class _Drawing:
    def __init__(self, layout: Layout) -> None:
        self._graph, self._back = layout.graph, set(layout.back)
        self._seen: set[str] = set()

    def block(self, name: str) -> list[str]:
        """Return the lines of a node and its followers."""
        node = self._graph.nodes[name]
        if name in self._seen:
            return [f"{node.label} ↑"]
        self._seen.add(name)
        label = f"{node.label} ({node.text_note})" if node.text_note else node.label
        blocks = [
            [f"↺ {self._graph.nodes[target].label}"] if (name, target) in self._back else self.block(target)
            for target in self._graph.links[name]
        ]
        if not blocks:
            return [label]
        margin = " " * (len(label) + 2)
        lines: list[str] = []
        for number, block in enumerate(blocks):
            last = number == len(blocks) - 1
            fork = f"{margin}{'└' if last else '├'}─► " if number else f"{label} ─{'─' if last else '┬'}─► "
            rest = f"{margin}{' ' if last else '│'}   "
            lines += [fork + block[0], *(rest + line for line in block[1:])]
        return lines
