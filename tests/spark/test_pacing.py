"""How often a slow poll is made."""

import pytest

from stanchion.spark.datasource.reading import backlog
from stanchion.spark.datasource.reading.backlog import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    time = [1000.0]
    monkeypatch.setattr(backlog, "monotonic", lambda: time[0])
    return time


def look(pace: Pace, clock: list[float], seconds: float) -> None:
    with pace.measured():
        clock[0] += seconds


def test_a_quick_look_is_due_again_at_once(clock: list[float]) -> None:
    pace = Pace()
    assert pace.due
    for _ in range(3):
        look(pace, clock, 0.04)
        assert pace.due


def test_at_most_a_twentieth_of_the_time_goes_into_long_ones(clock: list[float]) -> None:
    pace = Pace()
    look(pace, clock, 2.0)
    assert not pace.due
    clock[0] += 39.9
    assert not pace.due
    clock[0] += 0.2
    assert pace.due


def test_one_that_fails_counts_too(clock: list[float]) -> None:
    pace = Pace()
    with pytest.raises(KeyError):
        look_that_fails(pace, clock)
    assert not pace.due


def look_that_fails(pace: Pace, clock: list[float]) -> None:
    with pace.measured():
        clock[0] += 1.0
        raise KeyError
