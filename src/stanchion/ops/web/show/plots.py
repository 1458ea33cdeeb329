"""Plots as SVG, written by the server: numbers and escaped labels only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from markupsafe import Markup

from stanchion.core.times import moment
from stanchion.stores.records.jobs import SECOND

TOP, BOTTOM, HEIGHT = 12, 116, 138
WIDTH: Final = 1000
SPARK: Final = 22
"""Height of a small plot."""
_CLOCK: Final = (*(20, 30, 60, 120, 300, 600, 1200, 1800), *(3600 * hours for hours in (1, 2, 4, 8, 12, 24, 48, 96)))
_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720)

POINTS: Final = 120
"""Points of a line that are drawn, the least and the greatest of each part of the time."""

GAP: Final = 300 * SECOND
"""Microseconds between two values from which the time between them is unknown, and no line is drawn."""


class Line(NamedTuple):
    """A series: its name, the class of its colour, values by time (microseconds), and its style."""

    label: str
    colour: str
    values: Sequence[tuple[int, float]]
    dashed: bool = False
    filled: bool = False


class Plot(NamedTuple):
    """A plot with its title. `limit`: a line to be kept below; `sentence`: its content, for readers who can't see it.

    `span`: the times at its edges; None: the times of the first and the last value.
    """

    title: str
    lines: Sequence[Line]
    sentence: str
    shown: Callable[[float], str]
    limit: tuple[float, str] | None = None
    seconds: bool = False
    """Whether values are durations, with the round ticks of a clock."""
    span: tuple[int, int] | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return all(len(line.values) < 2 for line in self.lines)

    @property
    def key(self) -> Markup:
        """The names of the lines, each with its newest value."""
        parts = [
            Markup('<span><i class="c-{}{}"></i>{} {}</span>').format(
                line.colour, " dash" if line.dashed else "", self.shown(line.values[-1][1]), line.label
            )
            for line in self.lines
            if line.values
        ]
        return Markup("").join(parts)

    def svg(self) -> Markup:
        """Return the plot."""
        times = [at for line in self.lines for at, _ in line.values]
        first, last = self.span or (min(times), max(times))
        highest = max([value for line in self.lines for _, value in line.values] + [0.0])
        if self.limit is not None and highest > 0.4 * self.limit[0]:
            highest = max(highest, self.limit[0])
        step = round_step(highest or 1.0, seconds=self.seconds)
        top = step * max(1, math.ceil(highest / step - 1e-9))

        def height(value: float) -> float:
            return BOTTOM - (BOTTOM - TOP) * value / top

        ticks = [step * number for number in range(round(top / step) + 1)]
        parts = [_grid(height(tick), self.shown(tick) if tick else "") for tick in ticks]
        parts += _times(first, last)
        if self.limit is not None and self.limit[0] <= top:
            y = f"{height(self.limit[0]):.1f}"
            parts.append(
                Markup('<line class="limit" x1="0" x2="100%" y1="{y}" y2="{y}"/><text x="4" y="{t}">{l}</text>').format(
                    y=y, t=f"{height(self.limit[0]) - 4:.1f}", l=self.limit[1]
                )
            )
        drawn = Markup("").join(_line(line, first, last, height) for line in self.lines if len(line.values) > 1)
        inner = Markup('<svg width="100%" height="{h}" viewBox="0 0 {w} {h}" preserveAspectRatio="none">{d}</svg>')
        return Markup('<svg class="axes" width="100%" height="{h}" role="img" aria-label="{s}">{p}{i}</svg>').format(
            h=HEIGHT, s=self.sentence, p=Markup("").join(parts), i=inner.format(h=HEIGHT, w=WIDTH, d=drawn)
        )


def spark(values: Sequence[tuple[int, float]], colour: str, since: int) -> Markup:
    """Return a small plot without axes, for a table that has the same figures; empty without two values.

    It begins `since` that time; the space before the first value stays empty.
    """
    if len(values) < 2:
        return Markup("")
    highest = max(value for _, value in values) or 1.0
    line = Line("", colour, values, filled=True)
    drawn = _line(
        line, min(since, values[0][0]), values[-1][0], lambda value: SPARK - 1 - (SPARK - 3) * value / highest, SPARK
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(WIDTH, SPARK, drawn)


def round_step(highest: float, *, seconds: bool = False) -> float:
    """Return the distance of round ticks, so that there are two to four.

    It is 1, 2 or 5 times a power of ten; of durations over 10 s, round on a clock.
    """
    rough = highest / 3
    if seconds and 10 < rough <= _CLOCK[-1]:
        return next(float(one) for one in _CLOCK if one >= rough)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _grid(y: float, label: str) -> Markup:
    return Markup(
        '<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/><text x="-8" y="{t}" text-anchor="end">{l}</text>'
    ).format(y=f"{y:.1f}", t=f"{y + 4:.1f}", l=label)


def _times(first: int, last: int) -> list[Markup]:
    """Return the labels of the time axis, at whole minutes."""
    minutes = (last - first) / SECOND / 60
    step = next((one for one in _MINUTES if minutes / one <= 4), _MINUTES[-1])
    at = moment(first).replace(second=0, microsecond=0)
    at += timedelta(minutes=step - (60 * at.hour + at.minute) % step)
    labels = [Markup('<text x="100%" y="132" text-anchor="end">now</text>')]
    while at < moment(last):
        share = (at - moment(first)) / (moment(last) - moment(first))
        if share < 0.9:
            place = "start" if share < 0.04 else "middle"
            labels.append(
                Markup('<text x="{}%" y="132" text-anchor="{}">{}</text>').format(
                    f"{100 * share:.1f}", place, _clock(at)
                )
            )
        at += timedelta(minutes=step)
    return labels


def _clock(at: datetime) -> str:
    return f"{at:%H:%M}" if at.hour or at.minute else f"{at.day} {at:%b}"


def thinned(values: Sequence[tuple[int, float]], first: int, last: int) -> list[tuple[int, float]]:
    """Return at most about POINTS of these values: of each part of the time the least and the greatest."""
    width = max(1, 2 * (last - first) // POINTS)
    found: list[tuple[int, float]] = []
    for _, part in groupby(values, lambda one: (one[0] - first) // width):
        several = list(part)
        ends = min(several, key=lambda one: one[1]), max(several, key=lambda one: one[1])
        found += sorted(set(ends)) if len(several) > 2 else several
    return found


def unbroken(values: Sequence[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Return the values in parts, divided where nothing is known for GAP or longer."""
    parts: list[list[tuple[int, float]]] = []
    for one in values:
        if not parts or one[0] - parts[-1][-1][0] >= GAP:
            parts.append([])
        parts[-1].append(one)
    return parts


def _line(line: Line, first: int, last: int, height: Callable[[float], float], floor: int = BOTTOM) -> Markup:
    parts = [thinned(part, first, last) for part in unbroken(line.values)]
    return Markup("").join(_part(line, part, first, last, height, floor) for part in parts if len(part) > 1)


def _part(
    line: Line,
    values: Sequence[tuple[int, float]],
    first: int,
    last: int,
    height: Callable[[float], float],
    floor: int,
) -> Markup:
    places = [(WIDTH * (at - first) / max(1, last - first), height(value)) for at, value in values]
    points = " ".join(f"{x:.0f},{y:.1f}" for x, y in places)
    area = Markup("")
    if line.filled:
        area = Markup('<polygon class="area c-{}" points="{} {} {}"/>').format(
            line.colour, f"{places[0][0]:.0f},{floor}", points, f"{places[-1][0]:.0f},{floor}"
        )
    dash = " thin dash" if line.dashed else ""
    return area + Markup('<polyline class="line{} c-{}" points="{}"/>').format(dash, line.colour, points)
