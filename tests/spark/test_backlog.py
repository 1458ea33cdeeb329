"""How many jobs wait for a stream, without a wait of the stream for their count."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stanchion.errors import StoreUnavailable
from stanchion.spark.datasource.reading.backlog import Backlog


def counted(*found: int | Exception) -> Callable[[], int]:
    """Return a count that gives these numbers, one after the other."""
    given = iter(found)

    def count() -> int:
        number = next(given)
        if isinstance(number, Exception):
            raise number
        return number

    return count


def test_a_quick_count_is_made_at_once() -> None:
    backlog = Backlog(counted(3, 2, 1))
    assert [backlog.size() for _ in range(3)] == [3, 2, 1]


def test_one_that_fails_leaves_it_unknown() -> None:
    backlog = Backlog(counted(3, StoreUnavailable("the store did not answer"), 1))
    assert [backlog.size() for _ in range(3)] == [3, None, 1]


def test_a_long_one_is_made_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.spark.datasource.reading.backlog._QUICK", -1.0)
    monkeypatch.setattr("stanchion.spark.datasource.reading.backlog._SHARE", 1e9)  # it is due again at once
    go_on, given = threading.Event(), iter([3, 2])

    def count() -> int:
        number = next(given, 1)
        if number == 2:
            go_on.wait(60)
        return number

    backlog = Backlog(count)
    assert backlog.size() == 3  # how long it takes is not known yet
    assert [backlog.size() for _ in range(5)] == [3] * 5  # one thread counts
    (thread,) = [one for one in threading.enumerate() if one.name == "stanchion-backlog"]
    go_on.set()
    thread.join(60)
    assert backlog.size() in (2, 1)  # the next count may have ended already
