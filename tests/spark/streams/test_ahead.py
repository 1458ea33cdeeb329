"""When the next batch of a stream is claimed ahead."""

from __future__ import annotations

import threading

import pytest

from stanchion.streams import ahead
from stanchion.streams.ahead import EARLY, Ahead


class Time:
    """The time, which passes as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.made: list[int] = []
        self.claimed = threading.Event()

    def claim(self, limit: int) -> None:
        self.made.append(limit)
        self.claimed.set()

    def number(self, made: Ahead, seconds: float) -> None:
        """Claim a batch when it is needed."""

        def claim() -> int:
            self.now += seconds
            return 9

        assert made.numbering(claim) == 9

    def batch(self, made: Ahead, seconds: float, limit: int = 9) -> None:
        """Process a batch."""
        made.batch_begins(limit)
        self.now += seconds
        made.batch_ends()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(ahead, "monotonic", lambda: time.now)
    return time


def test_it_waits_until_the_batch_nearly_ends(time: Time) -> None:
    made = Ahead(time.claim)
    for _ in range(3):
        time.number(made, 1.0)
        time.batch(made, 1000.0)  # a test has no time for the claim to begin
    assert time.made == []


def test_it_begins_at_once_where_a_batch_takes_less_than_its_claim(time: Time) -> None:
    made = Ahead(time.claim)
    time.number(made, 1.0)
    time.batch(made, EARLY)
    assert time.made == []  # the first batch is measured
    time.number(made, 1.0)
    made.batch_begins(7)
    assert time.claimed.wait(60)
    made.batch_ends()
    assert time.made == [7]


def test_quick_claims_are_made_when_they_are_needed(time: Time) -> None:
    made = Ahead(time.claim)
    for _ in range(3):
        time.number(made, ahead.QUICK)
        made.batch_begins(9)
        assert threading.active_count() == len(threading.enumerate())
        assert not [one for one in threading.enumerate() if one.name == "stanchion-claim-ahead"]
        made.batch_ends()


def test_a_repeat_of_one_made_ahead_is_not_measured(time: Time) -> None:
    def claim(limit: int) -> None:
        time.now += 1.0
        time.claim(limit)

    made = Ahead(claim)
    time.number(made, 1.0)
    time.batch(made, 0.0)
    for _ in range(3):
        made.batch_begins(9)
        made._waiting._thread.join(60)  # type: ignore[union-attr]
        made.batch_ends()
        time.number(made, 0.0)  # were this the time of a claim, the next one would be too quick
        time.batch(made, 0.0, limit=0)
    assert time.made == [9, 9, 9]
