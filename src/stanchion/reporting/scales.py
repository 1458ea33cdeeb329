"""Axes of plots, and their labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stanchion.core.text.durations import UNKNOWN, spelled

_LENGTHS = (
    *(0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86_400),
    *(7 * 86_400, 30 * 86_400, 365 * 86_400, 3650 * 86_400),
)


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` on 0 to 1; its ticks are values with their labels."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        if self.log:
            value = max(value, self.low)
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def from_zero(highest: float, label: Callable[[float], str], ticks: int = 4) -> Axis:
    """Return an axis for counts, from 0 to a round number at or above the highest."""
    step = _round_step((highest or 1) / ticks)
    count = max(1, math.ceil((highest or 1) / step - 1e-9))
    return Axis(0, count * step, tuple((n * step, label(n * step)) for n in range(count + 1)))


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    return max(step, 1.0)


def log_lengths(values: Sequence[float], ticks: int = 6) -> Axis:
    """Return a logarithmic axis for durations in seconds, from a millisecond on."""
    lowest, highest = max(min(values, default=0.001), 0.001), max(max(values, default=1.0), 0.001)
    first = max((n for n, length in enumerate(_LENGTHS) if length <= lowest), default=0)
    last = min((n for n, length in enumerate(_LENGTHS) if length >= highest), default=len(_LENGTHS) - 1)
    last = max(last, first + 1)
    shown = range(first, last + 1, max(1, math.ceil((last - first) / ticks)))
    return Axis(_LENGTHS[first], _LENGTHS[last], tuple((_LENGTHS[n], spelled(_LENGTHS[n])) for n in shown), log=True)


def log_counts(highest: float) -> Axis:
    """Return a logarithmic axis for counts, from 1 on."""
    powers = max(1, math.ceil(math.log10(max(highest, 1)) - 1e-9))
    return Axis(1, 10.0**powers, tuple((10.0**n, number(10.0**n)) for n in range(powers + 1)), log=True)


_TIMES = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 14 * 86_400),
)
"""Round distances of ticks, in seconds; above, whole months."""

_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)


def moments(first: float, last: float, ticks: int) -> Axis:
    """Return an axis of time, in seconds since 1970; its ticks are at round times, in UTC."""
    span = last - first
    step = next((step for step in _TIMES if span / step <= ticks + 1), None)
    if step is not None:
        start = math.ceil(first / step)
        marks = [float(n * step) for n in range(start, math.floor(last / step) + 1)]
        shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%-d %b"
    else:
        marks, shape = _months(first, last, ticks), "%b %Y"
    named = [(mark, _at(mark, "%-d %b" if shape == "%H:%M" and not mark % 86_400 else shape)) for mark in marks]
    return Axis(first, last if span else first + 1, tuple(named or [(first, _at(first, "%H:%M:%S"))]))


def _months(first: float, last: float, ticks: int) -> list[float]:
    """Return the beginnings of months between two times, at most so many, at a round distance."""
    ends = [datetime.fromtimestamp(end, UTC) for end in (first, last)]
    low, high = (12 * end.year + end.month - 1 for end in ends)
    step = next((step for step in _MONTHS if (high - low) / step <= ticks + 1), _MONTHS[-1])
    numbers = range(-(-low // step) * step, high + 1, step)
    marks = [datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp() for number in numbers]
    return [mark for mark in marks if first <= mark <= last]


def _at(moment: float, shape: str) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime(shape)


def number(value: float) -> str:
    """Return a count: 950, 12k, 3.4M."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scale = 1e3 if mark == "k" else size
            return f"{value / scale:.3g}{mark}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def percent(share: float | None) -> str:
    """Return a share as a percentage; 100% and 0% only if exact."""
    if share is None:
        return UNKNOWN
    if share in (0, 1):
        return f"{share:.0%}"
    for digits in (1, 2, 3):
        text = f"{share:.{digits}%}"
        if text not in (f"{1:.{digits}%}", f"{0:.{digits}%}"):
            return text
    return "> 99.999%" if share > 0.5 else "< 0.001%"


def rate(per_second: float | None) -> str:
    """Return a rate in a suitable unit."""
    if per_second is None:
        return UNKNOWN
    for size, mark in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * size >= 1:
            return f"{number(float(f'{per_second * size:.3g}'))}/{mark}"
    return f"{per_second * 86_400:.3g}/d"
