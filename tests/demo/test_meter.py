"""The figures that the stations keep of themselves."""

import random

import pytest

from flights.meter import Delays, Meter
from flights.report import Check


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.0])
def test_percentiles_are_right_to_two_percent(share: float) -> None:
    delays, seconds = Delays(), sorted(random.Random(7).expovariate(3) for _ in range(10_000))
    for one in seconds:
        delays.add(one)
    assert delays.within(share) == pytest.approx(seconds[int(share * len(seconds)) - 1], rel=0.02)


def test_there_is_no_percentile_of_nothing() -> None:
    assert Delays().within(0.5) is None
    assert Meter().rate is None


def test_a_check_tells_each_count_once_they_differ() -> None:
    assert str(Check({"read": 1200, "landed": 1200})) == "1,200 read = landed"
    assert Check({"read": 1200, "landed": 1200}).ok
    assert str(Check({"read": 1200, "landed": 1199})) == "1,200 read, 1,199 landed"
    assert not Check({"read": 1200, "landed": 1199}).ok
