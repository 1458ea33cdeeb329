"""Plots as SVG. The page's style sets their colours, so that one picture works in light and dark.

Each is drawn for a width in pixels; the page shows a wide and a narrow one, whichever fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from markupsafe import Markup

from stanchion.reporting.scales import Axis, from_zero, log_counts, log_lengths, moments, number

WIDE, NARROW = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 24, 26
_ROW, _ROW_WITH_LABEL = 24, 40
_CHARACTER = 7.0
"""Approximate width of a character in the labels."""


class Canvas:
    """The frame of a plot, with space for labels at the left and below."""

    def __init__(self, width: int, height: int, title: str, left: int = _LEFT, right: int = _RIGHT) -> None:
        self.width, self.height, self.left, self.right = width, height, left, width - right
        self.top, self.bottom = _TOP, height - _BOTTOM
        self._parts: list[Markup] = []
        self._title = title

    def add(self, markup: str, *values: object) -> None:
        """Add an element; the values, which may be untrusted, are escaped."""
        self._parts.append(Markup(markup).format(*values))  # noqa: S704

    def x(self, share: float) -> float:
        """Return the x coordinate of a share of the width."""
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, share: float) -> float:
        """Return the y coordinate of a share of the height, from below."""
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def y_axis(self, axis: Axis, label: str = "") -> None:
        """Draw horizontal lines, with their values at the left."""
        for value, text in axis.ticks:
            y = self.y(axis(value))
            self.add('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>', self.left, self.right, y, y)
            self.add('<text x="{}" y="{}" text-anchor="end">{}</text>', self.left - 7, y + 4, text)
        if label:
            self.add('<text x="2" y="12">{}</text>', label)

    def x_axis(self, axis: Axis, *, lines: bool = False, label: str = "") -> None:
        """Write values below, as space permits. `lines`: draw vertical lines."""
        free = -1.0
        for n, (value, text) in enumerate(axis.ticks):
            x, half = self.x(axis(value)), len(text) * _CHARACTER / 2
            place = min(max(x, half), self.width - half)
            if place - half < free and n:
                continue
            free = place + half + 8
            if lines:
                self.add('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>', x, x, self.top, self.bottom)
            self.add('<text x="{}" y="{}" text-anchor="middle">{}</text>', round(place, 1), self.bottom + 17, text)
        if label:
            self.add('<text x="{}" y="12" text-anchor="end">{}</text>', self.right, label)

    def done(self) -> Markup:
        """Return the picture."""
        frame = Markup(
            '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-label="{t}"><title>{t}</title>'
        ).format(w=self.width, h=self.height, t=self._title)
        return frame + Markup("").join(self._parts) + Markup("</svg>")


Series = tuple[str, str, Sequence[float | None]]
"""A name, its colour class, and its values."""


def both(draw: Callable[[int], Markup]) -> Markup:
    """Return a plot for wide screens and one for narrow ones."""
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(draw(WIDE), draw(NARROW))


def legend(series: Sequence[tuple[str, str]]) -> Markup:
    """Return the legend."""
    entries = Markup("").join(Markup('<li><i class="{}"></i>{}</li>').format(kind, name) for name, kind in series)
    return Markup('<ul class="legend">{}</ul>').format(entries)


def stacked(title: str, first: float, step: float, series: Sequence[Series], unit: str) -> Markup:
    """Return stacked columns over time."""
    totals = [sum(value or 0 for value in values) for values in zip(*(one[2] for one in series), strict=True)]

    def draw(width: int) -> Markup:
        canvas = Canvas(width, 230, title)
        up, along = from_zero(max(totals), number), moments(first, first + step * len(totals), _ticks(width))
        canvas.y_axis(up, unit)
        each = (canvas.right - canvas.left) / len(totals)
        gap = 1 if each > 4 else 0
        wide = min(each - gap, 60)
        for n in range(len(totals)):
            base = 0.0
            x = round(canvas.left + n * each + (each - wide) / 2, 1)
            for name, kind, values in series:
                if value := values[n] or 0:
                    low, high = canvas.y(up(base)), canvas.y(up(base + value))
                    canvas.add(
                        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}: {:,}</title></rect>',
                        *(kind, x, high, round(wide, 1), round(max(low - high, 0.8), 1), name, value),
                    )
                    base += value
        canvas.x_axis(along)
        return canvas.done()

    return both(draw)


def lines(title: str, first: float, step: float, series: Sequence[Series], *, lengths: bool, unit: str) -> Markup:
    """Return lines over time. `lengths`: the values are seconds, on a logarithmic axis. None leaves a gap."""
    known = [value for _, _, values in series for value in values if value is not None]
    count = max(len(values) for _, _, values in series)

    def draw(width: int) -> Markup:
        canvas = Canvas(width, 230, title)
        up = log_lengths(known) if lengths else from_zero(max(known, default=1), number)
        canvas.y_axis(up, unit)
        along = moments(first, first + step * count, _ticks(width))
        for name, kind, values in series:
            places = [
                None if value is None else (canvas.x((n + 0.5) / count), canvas.y(up(value)))
                for n, value in enumerate(values)
            ]
            for there, run in groupby(places, lambda place: place is not None):
                points = [place for place in run if place is not None]
                if there and len(points) > 1:
                    path = " ".join(f"{x},{y}" for x, y in points)
                    canvas.add('<polyline class="{}" points="{}"><title>{}</title></polyline>', kind, path, name)
                elif there:
                    x, y = points[0]
                    canvas.add(
                        '<circle class="{}" cx="{}" cy="{}" r="2.6"><title>{}</title></circle>', kind, x, y, name
                    )
        canvas.x_axis(along)
        return canvas.done()

    return both(draw)


Spark = tuple[str, Sequence[float], str]
"""A label, its values over time, and the text at the end."""


def sparks(title: str, first: float, step: float, rows: Sequence[Spark]) -> Markup:
    """Return one small line over time for each row, each scaled separately, on a common time axis."""
    count = max(len(values) for _, values, _ in rows)

    def draw(width: int) -> Markup:
        left, each = _places([row[0] for row in rows], width)
        each += 8
        right = max(len(row[2]) for row in rows) * _CHARACTER + 14
        canvas = Canvas(width, len(rows) * each + 8 + _BOTTOM, title, left, round(right))
        canvas.top = 4
        canvas.x_axis(moments(first, first + step * count, _ticks(width)), lines=True)
        for n, (label, values, text) in enumerate(rows):
            top = 4 + n * each + _label(canvas, label, left, 4 + n * each)
            high = max(values, default=0) or 1
            points = " ".join(
                f"{canvas.x((place + 0.5) / count)},{round(top + 22 - 18 * value / high, 1)}"
                for place, value in enumerate(values)
            )
            canvas.add('<polyline class="s0" points="{}"><title>{}</title></polyline>', points, label)
            canvas.add('<text class="value" x="{}" y="{}">{}</text>', canvas.right + 8, top + 16, text)
        return canvas.done()

    return both(draw)


Bar = tuple[str, float, str, str]
"""A label, a share of the full length, the text at its end, and its colour class."""


def bars(title: str, rows: Sequence[Bar]) -> Markup:
    """Return horizontal bars with their labels."""

    def draw(width: int) -> Markup:
        left, each = _places([row[0] for row in rows], width)
        right = max(len(row[2]) for row in rows) * _CHARACTER + 14
        canvas = Canvas(width, len(rows) * each + 8, title, left, round(right))
        for n, (label, share, text, kind) in enumerate(rows):
            y = 4 + n * each + _label(canvas, label, left, 4 + n * each)
            length = max((canvas.right - canvas.left) * share, 1)
            canvas.add('<rect class="back" x="{}" y="{}" width="{}" height="16"/>', left, y + 2, canvas.right - left)
            bar = (kind, left, y + 2, round(length, 1))
            canvas.add('<rect class="{}" x="{}" y="{}" width="{}" height="16"/>', *bar)
            canvas.add('<text class="value" x="{}" y="{}">{}</text>', canvas.right + 8, y + 14, text)
        return canvas.done()

    return both(draw)


Range = tuple[str, float, float, float]
"""A label and three durations: the bar goes from the first to the second, with a mark at the third."""


def ranges(title: str, rows: Sequence[Range]) -> Markup:
    """Return bars of durations on a logarithmic axis."""

    def draw(width: int) -> Markup:
        left, each = _places([row[0] for row in rows], width)
        canvas = Canvas(width, len(rows) * each + 8 + _BOTTOM, title, left)
        canvas.top = 4
        axis = log_lengths([value for row in rows for value in row[1:]], 6 if width == WIDE else 3)
        canvas.x_axis(axis, lines=True)
        for n, (label, low, high, mark) in enumerate(rows):
            y = 4 + n * each + _label(canvas, label, left, 4 + n * each)
            x, end, dot = (canvas.x(axis(value)) for value in (low, high, mark))
            canvas.add('<line class="thin" x1="{}" x2="{}" y1="{}" y2="{}"/>', x, dot, y + 10, y + 10)
            wide = max(round(end - x, 1), 3)
            canvas.add('<rect class="s0" x="{}" y="{}" width="{}" height="10" rx="3"/>', x, y + 5, wide)
            canvas.add('<circle class="longest" cx="{}" cy="{}" r="3.4"/>', dot, y + 10)
        return canvas.done()

    return both(draw)


def ranks(title: str, counts: Sequence[int], law: tuple[float, float] | None) -> Markup:
    """Return counts by rank on log-log axes. `law`: the factor and exponent of the fitted line."""

    def draw(width: int) -> Markup:
        canvas = Canvas(width, 260, title)
        up, along = log_counts(max(counts)), log_counts(len(counts))
        canvas.y_axis(up, "times")
        canvas.x_axis(along, lines=True, label="rank →")
        if law is not None:
            top, exponent = law
            last = len(counts) if exponent <= 0 else min(len(counts), top ** (1 / exponent))
            start = 1 if top <= up.high else (top / up.high) ** (1 / exponent)
            ends = [(canvas.x(along(rank)), canvas.y(up(max(top * rank**-exponent, 1)))) for rank in (start, last)]
            canvas.add('<polyline class="law" points="{}"/>', " ".join(f"{x},{y}" for x, y in ends))
        for rank, count in enumerate(counts, 1):
            canvas.add(
                '<circle class="s0" cx="{}" cy="{}" r="3"><title>{}: {:,}</title></circle>',
                *(canvas.x(along(rank)), canvas.y(up(count)), rank, count),
            )
        return canvas.done()

    return both(draw)


def _ticks(width: int) -> int:
    return 6 if width == WIDE else 3


def _places(labels: Sequence[str], width: int) -> tuple[int, int]:
    """Return where bars start, and the height of each; with little space, labels are above the bars."""
    if width == NARROW:
        return 2, _ROW_WITH_LABEL
    return round(min(max(len(label) for label in labels) * _CHARACTER + 10, width * 0.36)), _ROW


def _label(canvas: Canvas, label: str, left: int, y: float) -> int:
    """Write the label of a bar; return the distance of the bar below it."""
    alongside = left > _CHARACTER
    most = int(((left - 8) if alongside else canvas.width) / _CHARACTER)
    shown = label if len(label) <= most else f"{label[: max(most - 1, 1)]}…"
    x, anchor = (left - 8, "end") if alongside else (left, "start")
    text = '<text class="label" x="{}" y="{}" text-anchor="{}">{}<title>{}</title></text>'
    canvas.add(text, x, y + (14 if alongside else 13), anchor, shown, label)
    return 0 if alongside else _ROW_WITH_LABEL - _ROW
