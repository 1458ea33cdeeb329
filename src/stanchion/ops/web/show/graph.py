"""Graphs of stations and of parts of flows as SVG, written by the server: from left to right, and downward for a phone.

Texts are escaped and cut to the width of their box; the table or list next to a graph has them whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from markupsafe import Markup

from stanchion.core.graph.layout import Layout, Place, laid_out
from stanchion.core.graph.model import Graph, GraphNode, Link
from stanchion.ops.web.show.foreign import visible

Kind = Literal["", "dead", "risk", "idle", "table"]
"""The style of a box: usual, needs a person, may need one, idle, and a table."""

Tone = Literal["sub", "bad", "warn"]

COLUMNS_FIT: Final = 4
"""Columns that a wide screen shows without scrolling."""

ROWS_FIT: Final = 2
"""Boxes side by side that a phone shows without scrolling."""

EDGE: Final = 1.0
_LETTER, _SMALL, _BIG = 7.9, 6.1, 11.6
"""Widths of a letter of a name, of a note and of a figure."""


class Box(NamedTuple):
    """A node. `mark`: of its state; `note`: at the right of the name; `big`, `unit`: a figure; `sub`, `tail`: below it.

    `tone`: the colour of `tail`.
    """

    name: str
    mark: str
    note: str = ""
    big: str = ""
    unit: str = ""
    sub: str = ""
    tail: str = ""
    tone: Tone = "sub"
    kind: Kind = ""


class Wire(NamedTuple):
    """A link. `width` in pixels; `label`: its rate; `stopped`: nothing moves on it, though something should.

    `dashed`: outside of the usual way.
    """

    width: float = 1.5
    label: str = ""
    stopped: bool = False
    dashed: bool = False


class Shape(NamedTuple):
    """Sizes of one direction: of a box, the gaps next to and below it, and the part that fits without scrolling."""

    width: float
    height: float
    along: float
    across: float
    fit: int


WIDE: Final = Shape(206, 112, 74, 36, COLUMNS_FIT)
TALL: Final = Shape(170, 108, 44, 18, ROWS_FIT)
SMALL_WIDE: Final = Shape(206, 58, 60, 18, COLUMNS_FIT + 1)
SMALL_TALL: Final = Shape(170, 58, 34, 14, ROWS_FIT)


class Drawing:
    """A graph to be drawn. `sentence`: its content, for readers who can't see it."""

    def __init__(
        self,
        sentence: str,
        boxes: Mapping[str, Box],
        links: Mapping[str, list[str]],
        wires: Mapping[Link, Wire] | None = None,
        entries: list[str] | None = None,
    ) -> None:
        self.sentence, self.boxes, self.wires = sentence, boxes, wires or {}
        nodes = {name: GraphNode(box.name) for name, box in boxes.items()}
        known = {name: [to for to in links.get(name, ()) if to in boxes] for name in boxes}
        self._layout = laid_out(Graph(sentence, nodes, known, _entries(known, entries or [])))
        self._small = not any(box.big for box in boxes.values())

    @property
    def wide(self) -> Markup:
        """The graph from left to right."""
        return _Picture(self, self._layout, SMALL_WIDE if self._small else WIDE, down=False).svg("wide")

    @property
    def tall(self) -> Markup:
        """The graph downward."""
        return _Picture(self, self._layout, SMALL_TALL if self._small else TALL, down=True).svg("tall")


def _entries(links: Mapping[str, list[str]], given: list[str]) -> list[str]:
    """Return nodes from which all others are reached: given ones, ones without predecessors, then any left."""
    fed = {to for targets in links.values() for to in targets}
    wanted = [*(one for one in given if one in links), *(one for one in links if one not in fed), *links]
    found: list[str] = []
    seen: set[str] = set()
    for name in wanted:
        if name not in seen:
            found.append(name)
            ahead = [name]
            while ahead:
                one = ahead.pop()
                if one not in seen:
                    seen.add(one)
                    ahead += links[one]
    return found


class _Picture:
    def __init__(self, drawing: Drawing, layout: Layout, shape: Shape, *, down: bool) -> None:
        self._drawing, self._layout, self._shape, self._down = drawing, layout, shape, down
        columns = len(layout.columns)
        rows = 1 + max(row for _, row in layout.at.values())
        backs = sum(one != to for one, to in layout.back)
        loops = any(one == to for one, to in layout.back)
        along = columns * (shape.height if down else shape.width) + (columns - 1) * shape.along
        across = rows * (shape.width if down else shape.height) + (rows - 1) * shape.across
        self._floor = across + EDGE
        across += 18 * backs + 20 * loops
        self._top = 20.0 * loops
        self._long = (rows if down else columns) > shape.fit
        self._size = (across, along) if down else (along, across)

    def svg(self, name: str) -> Markup:
        least = 360.0 if self._down else COLUMNS_FIT * WIDE.width + (COLUMNS_FIT - 1) * WIDE.along
        width, height = (side + 2 * EDGE for side in self._size)
        shift = max(0.0, (least - width) / 2)
        view = f"{-shift:.0f} {-self._top if not self._down else 0:.0f} {max(width, least):.0f} {height:.0f}"
        fixed = Markup(' width="{}" height="{}"').format(f"{width:.0f}", f"{height:.0f}") if self._long else Markup("")
        parts = [self._wire(link) for link in self._layout.routes]
        parts += [self._back(link, number) for number, link in enumerate(self._layout.back)]
        parts += [self._box(key, box) for key, box in self._drawing.boxes.items()]
        return Markup('<svg class="{}{}" viewBox="{}"{} role="img" aria-label="{}">{}</svg>').format(
            name, " long" if self._long else "", view, fixed, visible(self._drawing.sentence), Markup("").join(parts)
        )

    def _corner(self, place: Place) -> tuple[float, float]:
        """Return the left and upper edge of a place."""
        column, row = self._layout.at[place]
        shape = self._shape
        if self._down:
            return EDGE + row * (shape.width + shape.across), EDGE + column * (shape.height + shape.along)
        return EDGE + column * (shape.width + shape.along), EDGE + row * (shape.height + shape.across)

    def _ends(self, place: Place) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the points where wires enter and leave a place."""
        x, y = self._corner(place)
        if self._down:
            middle = x + self._shape.width / 2
            return (middle, y), (middle, y + self._shape.height)
        middle = y + self._shape.height / 2
        return (x, middle), (x + self._shape.width, middle)

    def _wire(self, link: Link) -> Markup:
        wire = self._drawing.wires.get(link, Wire())
        route = self._layout.routes[link]
        _, (x, y) = self._ends(route[0])
        path = f"M{x:.1f} {y:.1f}"
        for place in route[1:]:
            (left, level), behind = self._ends(place)
            left, level = (left, level - 8) if self._down else (left - 8, level)
            if self._down:
                bend = (level - y) / 2
                path += f"C{x:.1f} {y + bend:.1f} {left:.1f} {level - bend:.1f} {left:.1f} {level:.1f}"
            else:
                bend = (left - x) / 2
                path += f"C{x + bend:.1f} {y:.1f} {left - bend:.1f} {level:.1f} {left:.1f} {level:.1f}"
            x, y = left, level
            if len(place) > 1:
                x, y = behind
                path += f"L{x:.1f} {y:.1f}"
        stopped = " stopped" if wire.stopped else ""
        return Markup('<path class="wire{}{}" stroke-width="{}" d="{}"/><path class="arrow{}" d="{}"/>{}').format(
            stopped,
            " back" if wire.dashed else "",
            f"{wire.width:.1f}",
            path,
            stopped,
            self._tip(x, y),
            self._label(wire, link, x, y),
        )

    def _tip(self, x: float, y: float) -> str:
        return f"M{x - 6:.1f} {y - 2:.1f}h12l-6 10z" if self._down else f"M{x - 2:.1f} {y - 6:.1f}v12l10-6z"

    def _label(self, wire: Wire, link: Link, x: float, y: float) -> Markup:
        if not wire.label:
            return Markup("")
        rise = self._layout.at[link[1],][1] - self._layout.at[link[0],][1]
        if self._down:
            left = rise < 0
            place = (x - 12 if left else x + 12, y - 4, "end" if left else "start")
        else:
            place = (x - 4, y + 24 if rise > 0 else y - 12, "end")
        return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
            "bad" if wire.stopped else "sub", f"{place[0]:.1f}", f"{place[1]:.1f}", place[2], wire.label
        )

    def _back(self, link: Link, number: int) -> Markup:
        """Return a backward link, outside of all boxes."""
        (x, y), (to_x, to_y) = self._corner((link[0],)), self._corner((link[1],))
        width, height = self._shape.width, self._shape.height
        if link[0] == link[1]:
            middle = x + width / 2
            path = f"M{middle + 16:.1f} {y:.1f}C{middle + 26:.1f} {y - 22:.1f} {middle - 26:.1f} {y - 22:.1f} "
            path += f"{middle - 16:.1f} {y:.1f}"
        elif self._down:
            side = self._floor + 18 * number + 12
            path = (
                f"M{x + width:.1f} {y + height * 0.7:.1f}H{side - 8:.1f}Q{side:.1f} {y + height * 0.7:.1f} {side:.1f} "
            )
            path += f"{y + height * 0.7 - 8:.1f}V{to_y + height * 0.3 + 8:.1f}Q{side:.1f} {to_y + height * 0.3:.1f} "
            path += f"{side - 8:.1f} {to_y + height * 0.3:.1f}H{to_x + width:.1f}"
        else:
            depth = self._floor + 18 * number + 12
            one, other = x + width * 0.6, to_x + width * 0.4
            path = f"M{one:.1f} {y + height:.1f}V{depth - 8:.1f}Q{one:.1f} {depth:.1f} {one - 8:.1f} {depth:.1f}"
            path += f"H{other + 8:.1f}Q{other:.1f} {depth:.1f} {other:.1f} {depth - 8:.1f}V{to_y + height:.1f}"
        return Markup('<path class="wire back" stroke-width="1.5" d="{}"/>').format(path)

    def _box(self, key: str, box: Box) -> Markup:
        x, y = self._corner((key,))
        width, height = self._shape.width, self._shape.height
        note = "" if self._down and box.big else box.note
        name = _cut(box.name, width - 52 - len(note) * _SMALL, _LETTER)
        parts = [
            Markup('<g><title>{}</title><rect class="node n-{}" x="{}" y="{}" width="{}" height="{}" rx="8"/>').format(
                visible(f"{box.name}: {box.note}" if box.note else box.name),
                box.kind or "usual",
                *(f"{one:.1f}" for one in (x, y, width, height)),
            ),
            Markup(
                '<use href="#m-{m}" class="c-{m}" fill="currentColor" x="{x}" y="{y}" width="14" height="14"/>'
            ).format(m=box.mark, x=f"{x + 14:.1f}", y=f"{y + 14:.1f}"),
            _text("name", x + 36, y + 26, name),
            _text("sub", x + width - 14, y + 26, note, end=True),
        ]
        if box.big:
            parts.append(_text("big", x + 14, y + 62, box.big))
            parts.append(_text("sub", x + 20 + len(box.big) * _BIG, y + 62, box.unit))
        both = (len(box.sub) + len(box.tail) + 2) * _SMALL < width - 28
        sub = box.sub if both or not box.tail else ""
        parts.append(_text("sub", x + 14, y + height - 14, _cut(sub, width - 28, _SMALL)))
        parts.append(_text(box.tone, x + width - 14, y + height - 14, _cut(box.tail, width - 28, _SMALL), end=True))
        return Markup("").join([*parts, Markup("</g>")])


def _text(kind: str, x: float, y: float, text: str, *, end: bool = False) -> Markup:
    if not text:
        return Markup("")
    return Markup('<text class="{}" x="{}" y="{}"{}>{}</text>').format(
        kind, f"{x:.1f}", f"{y:.1f}", Markup(' text-anchor="end"') if end else Markup(""), text
    )


def _cut(text: str, room: float, letter: float) -> str:
    """Return a text that fits, with an ellipsis where its end is left out."""
    shown = visible(" ".join(text.split()))
    most = max(3, int(room / letter))
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
