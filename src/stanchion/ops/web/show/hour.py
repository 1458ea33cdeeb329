"""The plots of a time, of its points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from stanchion.core.text.durations import spelled
from stanchion.ops.reads.track import between
from stanchion.ops.web.show.plots import GAP, Line, Plot
from stanchion.ops.words import number, rate
from stanchion.telemetry.rollups import Point


def plots_of(points: Sequence[Point], span: tuple[int, int] | None = None) -> list[Plot]:
    """Return ready jobs, age, throughput and failures; none where there is nothing to draw. `span`: see `Plot`."""
    return [plot._replace(span=span) for plot in _plots(points) if not plot.empty]


def _plots(points: Sequence[Point]) -> list[Plot]:
    known = [(before, after) for before, after in pairwise(points) if after.at - before.at < GAP]
    rates = [(after.at, between(before, after)) for before, after in known]
    ready = [(one.at, float(one.ready)) for one in points]
    lag = [(one.at, one.lag) for one in points]
    pushed, done = [(at, one.pushed) for at, one in rates], [(at, one.done) for at, one in rates]
    failed, dead = [(at, 60 * one.failed) for at, one in rates], [(at, 60 * one.dead) for at, one in rates]
    return [
        Plot("Ready jobs", [Line("now", "ready", ready, filled=True)], _trend("Ready jobs", ready, number), number),
        Plot(
            "Oldest ready job",
            [Line("now", "ready", lag, filled=True)],
            _trend("The age of the oldest ready job", lag, spelled),
            _age,
            seconds=True,
        ),
        Plot(
            "Jobs per second",
            [Line("in", "ready", pushed, dashed=True), Line("out", "done", done)],
            f"{_trend('Jobs in per second', pushed, rate)}. {_trend('Jobs done per second', done, rate)}",
            rate,
        ),
        Plot(
            "Failed attempts per minute",
            [Line("will retry", "risk", failed, filled=True), Line("ended dead", "dead", dead, filled=True)],
            f"{_trend('Attempts that failed and will be retried, per minute', failed, rate)}. "
            f"{_trend('Jobs that ended dead, per minute', dead, rate)}",
            rate,
        ),
    ]


def _age(value: float) -> str:
    return "0" if value == 0 else spelled(value)


def _trend(what: str, values: list[tuple[int, float]], shown: Callable[[float], str]) -> str:
    if not values:
        return f"{what}: no values yet"
    first, last = values[0][1], values[-1][1]
    if first == last:
        return f"{what} stayed at {shown(last)}"
    return f"{what} {'rose' if last > first else 'fell'} from {shown(first)} to {shown(last)}"
