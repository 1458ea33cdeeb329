"""Pick-up delays and run times of five minutes: buckets, percentiles, slices."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.rules.times import (
    ACCURACY,
    BOUNDS,
    BUCKETS,
    ENTRIES_MAX,
    FLOOR,
    quantile,
    times_in,
    times_text,
)
from stanchion.telemetry.times import SLICE, SLICES, JobTimes, Times, by_queue


def row(queue: str = "q", priority: int = 0, *, waited: float = 0.0) -> JobRow:
    due = 1_900_000_000 * SECOND
    return JobRow("id", queue, -1, "running", priority, 0, due, due, "", started_at=due + int(waited * SECOND))


def bucket_of(seconds: float) -> int:
    return bisect_left(BOUNDS, seconds)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_percentiles_are_within_their_accuracy() -> None:
    drawn = random.Random(7)
    for spread in (0.5, 2.0, 4.0):
        values = sorted(min(BOUNDS[-1], max(FLOOR, drawn.lognormvariate(0.0, spread))) for _ in range(2001))
        counts = [0] * BUCKETS
        for value in values:
            counts[bucket_of(value)] += 1
        for percent in (1, 50, 95, 99):
            exact, found = values[percent * 20], quantile(counts, percent / 100)
            assert found is not None
            assert abs(found - exact) <= (ACCURACY + 1e-9) * exact, (spread, percent)


@pytest.mark.parametrize("seconds", [0.0, 0.0004, FLOOR])
def test_the_shortest_are_one_bucket(seconds: float) -> None:
    assert bucket_of(seconds) == 0
    assert quantile([3], 0.5) == FLOOR


def test_a_bound_is_part_of_its_bucket_and_the_longest_have_one() -> None:
    assert [bucket_of(BOUNDS[5]), bucket_of(BOUNDS[5] * 1.0001)] == [5, 6]
    assert bucket_of(1e12) == BUCKETS - 1
    assert quantile([], 0.95) is None
    assert quantile([0, 0], 0.95) is None
    longest = quantile([0] * (BUCKETS - 1) + [1], 0.95)
    assert longest is not None
    assert longest == pytest.approx(0.9 * BOUNDS[-1])


def test_delays_and_runs_by_queue_and_band() -> None:
    times = JobTimes(Clock())
    times.claimed([row(waited=2), row(waited=-5), row(priority=100, waited=0.5)])
    times.claimed([row("mail#3", waited=1), row("mail#3")])
    times.claimed([row("mail#4", priority=-20)])
    times.ended(("mail#3", 0, 0.25))
    times.ended(("q", 0, 9.0))
    found = {(one.queue, one.band): one for one in times.recent()}
    assert {key: (sum(one.delays), sum(one.runs)) for key, one in found.items()} == {
        ("q", "eventual"): (2, 1),
        ("q", "interactive"): (1, 0),
        ("mail", "eventual"): (3, 1),
    }
    assert found["q", "eventual"].delays[bucket_of(2)] == found["q", "eventual"].delays[0] == 1
    assert found["mail", "eventual"].runs[bucket_of(0.25)] == 1
    assert len(found["mail", "eventual"].runs) == bucket_of(0.25) + 1


def test_they_are_those_of_five_minutes() -> None:
    clock = Clock()
    times = JobTimes(clock)
    times.ended(("q", 0, 1.0))
    times.fold()
    clock.now += SLICE
    times.ended(("q", 0, 1.0))
    times.fold()
    clock.now += (SLICES - 1) * SLICE - 0.1
    assert [sum(one.runs) for one in times.recent()] == [2]
    clock.now += 0.1
    assert [sum(one.runs) for one in times.recent()] == [1]
    clock.now += SLICES * SLICE
    assert times.recent() == ()


def test_the_busiest_are_told() -> None:
    times = JobTimes(Clock())
    for number in range(ENTRIES_MAX + 5):
        times.claimed([row(f"q{number}")] * (1 + (number >= 5)))
    assert {one.queue for one in times.recent()} == {f"q{number}" for number in range(5, ENTRIES_MAX + 5)}


def test_stored_texts() -> None:
    told = (QueueTimes("päd", "eventual", (1, 2), ()),)
    assert times_in(times_text(told)) == told
    assert times_text(()) is None
    assert times_in(None) == ()


def test_as_json_values() -> None:
    worker = WorkerRow("w", "h", 1, ("q",), 1, 10.0, times=(QueueTimes("q", "eventual", (0, 3), (0, 0, 1)),))
    assert by_queue([worker], 0)["q"].as_json() == {
        "jobs": 3,
        "attempts": 1,
        "pickup_p50": 0.0011,
        "pickup_p95": 0.0011,
        "run_p50": 0.00134,
        "run_p95": 0.00134,
    }
    assert Times(runs=(1,)).as_json() | {"run_p50": 0, "run_p95": 0} == {
        "jobs": 0,
        "attempts": 1,
        "pickup_p50": None,
        "pickup_p95": None,
        "run_p50": 0,
        "run_p95": 0,
    }
