"""Stations and their links as a picture, SVG without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from stanchion.pipelines.svg_layout import Layout, Link, laid_out
from stanchion.stores.rules.limits import limits_in

if TYPE_CHECKING:
    from stanchion.pipelines.pipeline import Pipeline
    from stanchion.pipelines.station import Station

_HEIGHT, _ROW, _GAP, _MARGIN = 48.0, 76.0, 64.0, 28.0
_LETTER, _SMALL_LETTER = 8.3, 6.4
_TURN = 12.0
_DEPTH = 22.0
"""How far below the stations the links back run, each below the one before."""

_STYLE = """
  text { font-family: ui-sans-serif, system-ui, sans-serif; text-anchor: middle; fill: #1c2430 }
  .name { font-size: 14px; font-weight: 600 }
  .note { font-size: 11px; fill: #64707f }
  .station rect { fill: #fff; stroke: #8a97a8; stroke-width: 1.3 }
  .end rect { fill: #eef7f0; stroke: #3f9a5f }
  .spark rect { fill: #fdf3e6; stroke: #d98a2b }
  .link { fill: none; stroke: #8a97a8; stroke-width: 1.5; marker-end: url(#tip) }
  .back { stroke-dasharray: 5 4 }
  .tip { fill: #8a97a8 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6ebf2 } .note { fill: #9aa7b8 }
    .station rect { fill: #1c2430; stroke: #64707f }
    .end rect { fill: #183022; stroke: #3f9a5f } .spark rect { fill: #38290f; stroke: #d98a2b }
  }
"""


def picture(pipeline: Pipeline) -> str:
    """Return the SVG of a pipeline whose links are checked."""
    return _Picture(pipeline).text()


class _Picture:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline, self._stations = pipeline, pipeline.stations
        self._layout: Layout = laid_out({name: one.to for name, one in self._stations.items()}, pipeline.entries)
        self._widths = [
            max((_width(self._stations[place[0]]) for place in column if len(place) == 1), default=0.0)
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
                f"<title>Pipeline {escape(self._pipeline.name)}</title>",
                f"<style>{_STYLE}</style>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                'orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
                *(self._entry(name) for name in self._pipeline.entries),
                *(self._forward(link) for link in self._layout.ways),
                *self._back(),
                *(self._station(station) for station in self._stations.values()),
                "</svg>\n",
            ]
        )

    def _box(self, place: tuple[str, ...]) -> tuple[float, float, float]:
        """Return the left and the right edge of a place, and its middle line."""
        column, row = self._layout.at[place]
        left, wide = self._lefts[column], self._widths[column]
        return left, left + wide, _MARGIN + _HEIGHT / 2 + _ROW * row

    def _station(self, station: Station) -> str:
        left, right, y = self._box((station.station,))
        middle, note = (left + right) / 2, _note(station)
        kind = "spark" if station.frame else "middle" if station.to else "end"
        name_at = y - 2 if note else y + 5
        return (
            f'<g class="station {kind}"><rect x="{left:.1f}" y="{y - _HEIGHT / 2:.1f}" width="{right - left:.1f}" '
            f'height="{_HEIGHT:.0f}" rx="9"/><text class="name" x="{middle:.1f}" y="{name_at:.1f}">'
            f"{escape(station.station)}</text>"
            + (f'<text class="note" x="{middle:.1f}" y="{y + 15:.1f}">{escape(note)}</text>' if note else "")
            + "</g>"
        )

    def _entry(self, name: str) -> str:
        left, _, y = self._box((name,))
        return f'<path class="link" d="M{left - _GAP / 2:.1f} {y:.1f}H{left:.1f}"/>'

    def _forward(self, link: Link) -> str:
        way = self._layout.ways[link]
        _, x, y = self._box(way[0])
        path = f"M{x:.1f} {y:.1f}"
        for place in way[1:]:
            left, right, level = self._box(place)
            bend = (left - x) / 2
            path += f"C{x + bend:.1f} {y:.1f} {left - bend:.1f} {level:.1f} {left:.1f} {level:.1f}"
            if len(place) > 1:
                path += f"H{right:.1f}"
            x, y = right, level
        return f'<path class="link" d="{path}"/>'

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
        """Return the path of a link from a station to itself."""
        left, right, y = self._box((name,))
        x, top = (left + right) / 2, y - _HEIGHT / 2
        high = top - 26
        return f"M{x + 16:.1f} {top:.1f}C{x + 26:.1f} {high:.1f} {x - 26:.1f} {high:.1f} {x - 16:.1f} {top:.1f}"

    def _under(self, one: str, to: str, depth: float) -> str:
        """Return the path of a link back, below all stations; beside the one where another is below that."""
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


def _width(station: Station) -> float:
    return max(84.0, 28 + max(len(station.station) * _LETTER, len(_note(station)) * _SMALL_LETTER))


def _note(station: Station) -> str:
    """Return what is particular to a station."""
    notes = ["Spark"] if station.frame else []
    notes += limits_in(station.limits).semaphores
    if station.max_rate is not None:
        notes.append(f"{station.max_rate:g}/s")
    if not station.to:
        notes.append("end")
    return ", ".join(notes)
