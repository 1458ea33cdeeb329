"""A graph as self-contained SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from stanchion.core.graph.layout import Layout
from stanchion.core.graph.model import PAINTS, PLAIN_PAINT, GraphNode, Link

_HEIGHT, _ROW, _GAP, _MARGIN = 48.0, 76.0, 64.0, 28.0
_LETTER, _SMALL_LETTER = 8.3, 6.4
_TURN = 12.0
_DEPTH = 22.0
"""The distance of backward links below the nodes, and between each other."""

_ALWAYS_STYLED = ("end", "spark")


def as_svg(layout: Layout) -> str:
    """Return the text of an SVG file, in light and dark colours."""
    return _Picture(layout).text()


class _Picture:
    def __init__(self, layout: Layout) -> None:
        self._graph, self._layout = layout.graph, layout
        self._widths = [
            max((_width(self._graph.nodes[place[0]]) for place in column if len(place) == 1), default=0.0)
            for column in self._layout.columns
        ]
        self._lefts = [
            _MARGIN + _GAP / 2 + sum(self._widths[:number]) + _GAP * number for number in range(len(self._widths))
        ]
        self._floor = _MARGIN + _HEIGHT + _ROW * max(row for _, row in self._layout.at.values())

    def text(self) -> str:
        width = self._lefts[-1] + self._widths[-1] + _MARGIN
        loops = sum(one != to for one, to in self._layout.back)
        height = self._floor + _DEPTH * loops + _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
                f'width="{width:.0f}" height="{height:.0f}" role="img">',
                f"<title>{escape(self._graph.title)}</title>",
                f"<style>{_style(self._graph.nodes.values())}</style>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                'orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
                *(self._entry(name) for name in self._graph.entries),
                *(self._forward(link) for link in self._layout.routes),
                *self._back(),
                *(self._node(name, node) for name, node in self._graph.nodes.items()),
                "</svg>\n",
            ]
        )

    def _box(self, place: tuple[str, ...]) -> tuple[float, float, float]:
        """Return the left and right edges of a place, and its vertical centre."""
        column, row = self._layout.at[place]
        left, wide = self._lefts[column], self._widths[column]
        return left, left + wide, _MARGIN + _HEIGHT / 2 + _ROW * row

    def _node(self, name: str, node: GraphNode) -> str:
        left, right, y = self._box((name,))
        middle = (left + right) / 2
        name_at = y - 2 if node.note else y + 5
        return (
            f'<g class="station {node.kind}"><rect x="{left:.1f}" y="{y - _HEIGHT / 2:.1f}" '
            f'width="{right - left:.1f}" height="{_HEIGHT:.0f}" rx="9"/>'
            f'<text class="name" x="{middle:.1f}" y="{name_at:.1f}">{escape(node.label)}</text>'
            + (f'<text class="note" x="{middle:.1f}" y="{y + 15:.1f}">{escape(node.note)}</text>' if node.note else "")
            + "</g>"
        )

    def _entry(self, name: str) -> str:
        left, _, y = self._box((name,))
        return f'<path class="link" d="M{left - _GAP / 2:.1f} {y:.1f}H{left:.1f}"/>'

    def _forward(self, link: Link) -> str:
        route = self._layout.routes[link]
        _, x, y = self._box(route[0])
        path = f"M{x:.1f} {y:.1f}"
        for place in route[1:]:
            left, right, level = self._box(place)
            bend = (left - x) / 2
            path += f"C{x + bend:.1f} {y:.1f} {left - bend:.1f} {level:.1f} {left:.1f} {level:.1f}"
            if len(place) > 1:
                path += f"H{right:.1f}"
            x, y = right, level
        kind = "link back" if link in self._graph.dashed else "link"
        return f'<path class="{kind}" d="{path}"/>'

    def _back(self) -> list[str]:
        paths, depth = [], self._floor
        for one, to in self._layout.back:
            if one == to:
                path = self._round(one)
            else:
                depth += _DEPTH
                path = self._under(one, to, depth)
            paths.append(f'<path class="link back" d="{path}"/>')
        return paths

    def _round(self, name: str) -> str:
        """Return the path of a link from a node to itself."""
        left, right, y = self._box((name,))
        x, top = (left + right) / 2, y - _HEIGHT / 2
        high = top - 26
        return f"M{x + 16:.1f} {top:.1f}C{x + 26:.1f} {high:.1f} {x - 26:.1f} {high:.1f} {x - 16:.1f} {top:.1f}"

    def _under(self, one: str, to: str, depth: float) -> str:
        """Return the path of a backward link, below all nodes; to the side if another node is below its own."""
        left, right, y = self._box((one,))
        if self._lowest(one):
            x = (left + right) / 2
            path = f"M{x:.1f} {y + _HEIGHT / 2:.1f}V{depth - _TURN:.1f}"
        else:
            x, y = right + _GAP / 4, y + _HEIGHT / 4
            path = f"M{right:.1f} {y:.1f}Q{x:.1f} {y:.1f} {x:.1f} {y + _TURN:.1f}V{depth - _TURN:.1f}"
        path += f"Q{x:.1f} {depth:.1f} {x - _TURN:.1f} {depth:.1f}"
        left, right, y = self._box((to,))
        lowest = self._lowest(to)
        x = (left + right) / 2 if lowest else left - _GAP / 4
        path += f"H{x + _TURN:.1f}Q{x:.1f} {depth:.1f} {x:.1f} {depth - _TURN:.1f}"
        if lowest:
            return f"{path}V{y + _HEIGHT / 2:.1f}"
        y += _HEIGHT / 4
        return f"{path}V{y + _TURN:.1f}Q{x:.1f} {y:.1f} {left:.1f} {y:.1f}"

    def _lowest(self, name: str) -> bool:
        column, row = self._layout.at[name,]
        return all(self._layout.at[place][1] <= row for place in self._layout.columns[column])


def _width(node: GraphNode) -> float:
    return max(84.0, 28 + max(len(node.label) * _LETTER, len(node.note) * _SMALL_LETTER))


def _style(nodes: Iterable[GraphNode]) -> str:
    kinds = dict.fromkeys([*_ALWAYS_STYLED, *(node.kind for node in nodes if node.kind in PAINTS)])
    light = [f".{kind} rect {{ fill: {PAINTS[kind].fill}; stroke: {PAINTS[kind].border} }}" for kind in kinds]
    dark = [f".{kind} rect {{ fill: {PAINTS[kind].dark_fill}; stroke: {PAINTS[kind].border} }}" for kind in kinds]
    light_rules, dark_rules = "\n  ".join(light), " ".join(dark)
    fill, border, dark_fill = PLAIN_PAINT
    return f"""
  text {{ font-family: ui-sans-serif, system-ui, sans-serif; text-anchor: middle; fill: #1c2430 }}
  .name {{ font-size: 14px; font-weight: 600 }}
  .note {{ font-size: 11px; fill: #64707f }}
  .station rect {{ fill: {fill}; stroke: {border}; stroke-width: 1.3 }}
  {light_rules}
  .link {{ fill: none; stroke: {border}; stroke-width: 1.5; marker-end: url(#tip) }}
  .back {{ stroke-dasharray: 5 4 }}
  .tip {{ fill: {border} }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6ebf2 }} .note {{ fill: #9aa7b8 }}
    .station rect {{ fill: {dark_fill}; stroke: #64707f }}
    {dark_rules}
  }}
"""
