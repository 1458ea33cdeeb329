"""An idle fleet reads the list of queues, and the schedules, about as often as one worker does."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.cron.ticker import Round, Ticker
from stanchion.worker import heartbeat, scheduler
from stanchion.worker.claiming import served_queues
from stanchion.worker.claiming.served_queues import ServedQueues
from stanchion.worker.heartbeat import Heartbeat
from stanchion.worker.scheduler import Scheduler

SECONDS = 3600.0


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(served_queues, "time", SimpleNamespace(monotonic=lambda: clock.now))
    random.seed(7)
    return clock


class Fleet:
    """Workers of a pattern in simulated time."""

    def __init__(self, app: Stanchion, size: int, clock: SimpleNamespace) -> None:
        self.workers = [ServedQueues(context_of(app), ["mail.*"], {}) for _ in range(size)]
        self._clock, self._size = clock, size
        self.looks = 0
        self.run(60)

    def look(self) -> None:
        """Move the clock to the next look of a worker, and play it."""
        worker = min(self.workers, key=lambda one: one.look_in or 0.0)
        self._clock.now += worker.look_in
        worker.refresh(self._size)
        self.looks += 1

    def run(self, seconds: float) -> int:
        """Play for some seconds; return the number of looks."""
        self.looks, end = 0, self._clock.now + seconds
        while self._clock.now < end:
            self.look()
        return self.looks


@pytest.mark.parametrize("size", [2, 5, 16, 100])
def test_workers_of_a_pattern_take_turns_to_look_for_new_queues(
    app: Stanchion, clock: SimpleNamespace, size: int
) -> None:
    alone, together = Fleet(app, 1, clock).run(SECONDS), Fleet(app, size, clock).run(SECONDS)
    assert alone == pytest.approx(SECONDS / 2, rel=0.01)
    assert together <= max(1.1 * alone, size * SECONDS / 9)


@pytest.mark.parametrize("size", [1, 16])
def test_new_queues_are_found_by_one_worker_soon_and_by_all_within_seconds(
    app: Stanchion, clock: SimpleNamespace, size: int
) -> None:
    fleet, seconds = Fleet(app, size, clock), list[float]()
    app.queue("mail.new").push(1)
    began = clock.now
    while len(found := [one for one in fleet.workers if one.names]) < size:
        fleet.look()
        if not found:
            seconds.append(clock.now - began)
    assert seconds[-1] <= 2.5
    assert clock.now - began <= (2.5 if size == 1 else 12.5)


@pytest.mark.parametrize("size", [2, 10, 16])
def test_schedulers_take_turns_while_no_tick_is_near(
    app: Stanchion, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(Ticker, "tick", lambda _self: Round(0, 0, None))
    random.seed(7)
    one, of_fleet = Scheduler(context_of(app)), Scheduler(context_of(app), lambda: size)
    alone, together = (sum(each._tick() for _ in range(1000)) / 1000 for each in (one, of_fleet))
    assert alone == pytest.approx(scheduler.PAUSE_SECONDS_MAX, rel=0.02)
    assert together >= 0.9 * min(size, scheduler.PAUSE_WORKERS_MAX) * alone


def test_a_scheduler_is_on_time_for_a_tick_however_large_the_fleet(
    app: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ticker, "tick", lambda _self: Round(0, 0, 5_000_000))
    assert all(4.0 < Scheduler(context_of(app), lambda: 100)._tick() <= 5.0 + scheduler.JITTER for _ in range(20))


def test_workers_that_start_together_beat_apart(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(heartbeat, "boot_clock", lambda: clock.now)

    def beats() -> list[float]:
        """Play a worker; return when it beats."""
        clock.now, at = 0.0, list[float]()
        unused: Any = None
        one = Heartbeat(context_of(app), 10.0, unused, unused, lambda: 0.0, unused, lambda: None)

        def wait(seconds: float) -> bool:
            clock.now += seconds
            if len(at) == 4:
                one._stopping.set()
            return False

        monkeypatch.setattr(one, "beat", lambda: at.append(clock.now))
        monkeypatch.setattr(one, "_sign", SimpleNamespace(wait=wait, clear=lambda: None))
        one._run()
        return at

    fleet = [beats() for _ in range(16)]
    assert {at[0] for at in fleet} == {0.0}
    assert len({round(at[1], 3) for at in fleet}) > 10
    assert all(5.0 <= at[1] <= 10.1 for at in fleet)
    assert all(at[number + 1] - at[number] == pytest.approx(10.0) for at in fleet for number in (1, 2))
