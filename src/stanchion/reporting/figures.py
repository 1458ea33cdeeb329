"""The figures of a report: definitions, and the rules that both engines share. Their size is bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stanchion.core.service_levels import BANDS
from stanchion.core.text.redaction import redacted

Figures = dict[str, Any]

STATES = ("done", "dead", "cancelled")
SHARES = (0.5, 0.9, 0.95, 0.99, 1.0)
NAMES = ("p50", "p90", "p95", "p99", "max")

TASKS, TENANTS, ERRORS, STATIONS, MOST_ATTEMPTS = 30, 20, 500, 40, 25
"""Maximum rows of each kind, and the number from which attempts are counted together."""

IDS = 5
"""Dead jobs that are named with an error."""

_STEPS = (
    *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 28 * 86_400, 91 * 86_400, 364 * 86_400),
)
MOST_STEPS = 120


def step_for(seconds: float) -> int:
    """Return the width of a time step in seconds, such that there are not too many steps."""
    return next((step for step in _STEPS if seconds / step < MOST_STEPS), _STEPS[-1])


def steps(first: float, last: float, step: int) -> range:
    """Return the starts of all steps from the first time to the last."""
    return range(math.floor(first / step) * step, math.floor(last / step) * step + 1, step)


FEWEST_RANKS = 8


def jain(values_sum: float, squares_sum: float, count: int) -> float | None:
    """Return Jain's fairness index: 1 if all are equal, 1/n if one has everything; None if there is nothing."""
    return None if not count or not squares_sum else values_sum**2 / (count * squares_sum)


def power_law(counts: Sequence[int]) -> Figures | None:
    """Fit count = top * rank ** -exponent to descending counts, on log-log axes; None for fewer than FEWEST_RANKS.

    Least squares; a line through few points nearly always fits, and means nothing.
    """
    if len(counts) < FEWEST_RANKS or counts[0] == counts[-1]:
        return None
    xs = [math.log(rank) for rank in range(1, len(counts) + 1)]
    ys = [math.log(count) for count in counts]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covered = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread, height = sum((x - mean_x) ** 2 for x in xs), sum((y - mean_y) ** 2 for y in ys)
    slope = covered / spread
    return {
        "exponent": -slope,
        "top": math.exp(mean_y - slope * mean_x),
        "r_squared": covered**2 / (spread * height),
    }


def named(values: Sequence[float] | None) -> Figures:
    """Return percentiles by their names; each is None if there are no values."""
    return dict.fromkeys(NAMES) if values is None else dict(zip(NAMES, values, strict=True))


def band(number: int, row: Mapping[str, Any]) -> Figures:
    """Return the figures of a band, from its counts and percentiles."""
    one = BANDS[number]
    return {
        "band": one.name,
        "jobs": row["jobs"],
        "pickup": named(row["pickup"]),
        "run": named(row["run"]),
        "levels": [
            _level("age", one.max_age, row["age_kept"], row["started"]),
            _level("run", one.max_run, row["run_kept"], row["ended"]),
            _level("attempts", one.max_attempts, row["attempts_kept"], row["jobs"]),
        ],
    }


def _level(what: str, limit: float, kept: int, of: int) -> Figures:
    return {"what": what, "limit": limit, "kept": kept, "of": of, "share": kept / of if of else None}


def errors(rows: Sequence[Figures]) -> Figures:
    """Return the figures of the errors, from the figures of each kind and task, the most frequent first."""
    counts = [row["count"] for row in rows]
    return {"rows": redacted(list(rows)), "total": sum(counts), "law": power_law(counts)}


def stations(rows: Sequence[Figures], step: int, first: float, last: float, order: Sequence[str]) -> list[Figures]:
    """Return the figures of the stations, from their figures in each time step.

    `order`: stations in the order of their pipelines; others are sorted by the time of their first item.
    """
    by_station: dict[str, list[Figures]] = {}
    for row in rows:
        by_station.setdefault(row["station"], []).append(row)
    begins = min([first, *(row["first"] for row in rows)])
    moments = steps(begins, last, step)[-4 * MOST_STEPS :]
    places = {name: place for place, name in enumerate(order)}
    found = [_station(name, own, moments) for name, own in by_station.items()]
    found.sort(key=lambda row: (places.get(row["station"], len(places)), row["first"], row["station"]))
    return found[:STATIONS]


def _station(name: str, rows: Sequence[Figures], moments: range) -> Figures:
    items = sum(row["items"] for row in rows)
    first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
    counts = {row["at"]: row["items"] for row in rows}
    return {
        "station": name,
        "items": items,
        "retries": sum(row["retries"] or 0 for row in rows),
        "first": first,
        "last": last,
        "per_second": items / (last - first) if last > first else None,
        "begins": moments[0],
        "counts": [counts.get(at, 0) for at in moments],
    }
