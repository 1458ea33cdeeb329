"""The rule of all rates, by a clock of its own; that the stores follow it is for their conformance suite."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from stanchion.jobs.options import per_second_of, spelled_rate
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.capacity.rate_limit import Bucket, Promise

EPOCH = 1_800_000_000 * SECOND


def worked_off(per_second: float, late: float, standstill: float = 0.0, jobs: int = 60) -> list[tuple[int, int]]:
    """Return when each job starts, and its number, where a worker looks up to `late` seconds after the next is due."""
    random, bucket, now = Random(1), Bucket(per_second, 0.0, 0), EPOCH
    line: list[tuple[int, int, Promise | None]] = [(now, number, None) for number in range(jobs)]
    started: list[tuple[int, int]] = []
    while line:
        for one in sorted(line):
            due, number, promise = one
            if due > now:
                break
            line.remove(one)
            bucket, again = bucket.asked(now, promise)
            if again is None:
                started.append((now, number))
            else:
                line.append((again, number, Promise(again, again=promise is not None)))
        if len(started) == jobs // 2:
            now += int(standstill * SECOND)
        now = max(now, min(line)[0] if line else now) + int(random.uniform(0, late) * SECOND)
    return started


@pytest.mark.parametrize("per_second", [0.5, 2.0, 3.0, 5.0, 10.0])
@pytest.mark.parametrize("late", [0.0, 0.005, 0.045, 0.06])
def test_late_starts_keep_the_rate_and_the_order(per_second: float, late: float) -> None:
    started = worked_off(per_second, late)
    assert [number for _, number in started] == list(range(60))
    share = 59 * SECOND / (started[-1][0] - started[0][0]) / per_second
    assert 0.98 <= share <= 1


@pytest.mark.parametrize("per_second", [0.5, 2.0, 5.0, 10.0])
def test_a_standstill_moves_all_back_in_their_order(per_second: float) -> None:
    started = worked_off(per_second, 0.005, standstill=7.0)
    assert [number for _, number in started] == list(range(60))
    lost = 7 + 2 / per_second
    assert (started[-1][0] - started[0][0]) / SECOND <= 59 / per_second + lost


@pytest.mark.parametrize("per_second", [0.5, 2.0, 5.0, 10.0, 15.0, 30.0, 100.0])
@pytest.mark.parametrize("standstill", [0.0, 3.0])
def test_no_stretch_of_time_has_more_than_it_may(per_second: float, standstill: float) -> None:
    at = [when for when, _ in worked_off(per_second, 0.03, standstill, jobs=90)]
    ahead = max(0.05, 0.1 - 1 / per_second) + 1e-5
    for first, begin in enumerate(at):
        for number, end in enumerate(at[first:]):
            assert number <= (end - begin) / SECOND * per_second + ahead * per_second


def test_idle_time_saves_up_no_tolerance() -> None:
    bucket, _ = Bucket(2.0, 0.0, 0).asked(EPOCH, None)
    started = [EPOCH]
    for now in range(EPOCH + 60 * SECOND, EPOCH + 62 * SECOND, SECOND // 1000):
        bucket, again = bucket.asked(now, None)
        started += [now] if again is None else []
    assert all(after - before >= SECOND // 2 for before, after in pairwise(started))


def test_a_bucket_of_an_older_release_goes_on() -> None:
    older = Bucket(2.0, tokens=0.0, filled_at=EPOCH, promised=EPOCH + SECOND)
    assert older.asked(EPOCH + SECOND // 2, Promise(EPOCH + SECOND // 2, again=False))[1] is None
    assert older.asked(EPOCH, None)[1] == EPOCH + 3 * SECOND // 2


def test_a_job_that_was_put_back_is_not_passed_by_one_that_returns_later() -> None:
    bucket = Bucket(1.0, tokens=0.0, filled_at=EPOCH, promised=EPOCH + 9 * SECOND, promised_again=EPOCH + 4 * SECOND)
    now = EPOCH + 4 * SECOND
    assert bucket.asked(now, Promise(EPOCH + 3 * SECOND, again=False))[1] == EPOCH + 5 * SECOND
    assert bucket.asked(now, Promise(EPOCH + 4 * SECOND, again=True))[1] is None
    assert bucket.asked(now + SECOND, Promise(EPOCH + 5 * SECOND, again=False))[1] is None


@pytest.mark.parametrize(
    "given", ["20/s", "30/m", "100/m", "7/m", "5000/h", "36/h", "10/d", "3/d", "0.1/d", "1000000/s", "1.5/d"]
)
def test_a_rate_is_spelled_as_it_was_given(given: str) -> None:
    assert spelled_rate(per_second_of(given)) == given
