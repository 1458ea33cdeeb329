"""Workers that stood still, stopped or asleep, while others ran the jobs that they had claimed."""

import threading
from collections import Counter
from typing import Any

import pytest

from stanchion import JobState, Stanchion, Worker
from stanchion.context import steadiness
from stanchion.core import boot_clock
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from stanchion.worker import heartbeat, holding
from stanchion.worker.claiming import claimer
from stanchion.worker.claiming.pace import Prefetch
from stanchion.worker.holding import Holding
from tests.worker.conftest import ended, until, working

AWAY = 3600.0


class Clock:
    """The boot clock, moved as by a sleep of the machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asleep = 0.0
        for module in (claimer, heartbeat, holding, steadiness):
            monkeypatch.setattr(module, "boot_clock", self)

    def __call__(self) -> float:
        return boot_clock.boot_clock() + self._asleep

    def sleep(self, app: Stanchion) -> None:
        self._asleep += AWAY
        app.store.clock_offset += AWAY


@pytest.fixture
def clock(monkeypatch) -> Clock:
    monkeypatch.setattr(Prefetch, "jobs", lambda *_: 100)  # however slow this machine is
    return Clock(monkeypatch)


def run_elsewhere(app: Stanchion, number: int) -> list[str]:
    """Have another worker take back the jobs of dead ones, and run them."""
    while app.store.recover():
        pass
    app.store.clock_offset += 60  # over the back-off of a lost lease
    rows = app.store.claim(Claim("default", number, "elsewhere", lease=600.0)).rows
    app.store.settle([Commit(row.lease) for row in rows])
    return [row.id for row in rows]


class Scene:
    """A worker with one thread that runs a job, with more in its buffer."""

    def __init__(self, app: Stanchion, *, quick: int = 300) -> None:
        self.app, self.begun, self.hold = app, threading.Event(), threading.Event()
        self.ran = Counter[str]()
        app.task(name="quick")(self._quick)
        app.task(name="long")(self._long)
        for number in range(quick):
            app.enqueue("quick", f"warm {number}")
        self.long = app.enqueue("long")
        self.buffered = [app.enqueue("quick", f"later {number}") for number in range(quick)]

    def _quick(self, name: str) -> None:
        self.ran[name] += 1

    def _long(self) -> None:
        self.begun.set()
        self.hold.wait(120)

    @property
    def later(self) -> int:
        return sum(name.startswith("later") for name in self.ran)

    def full(self, worker: Worker) -> bool:
        """Whether jobs wait in the buffer, and the worker claims no more."""
        prefetch: Any = worker._claimer._prefetch
        prefetch.jobs = lambda *_: len(self.buffered)  # also if the first jobs took long
        waiting = worker._runners._buffer.qsize()
        idle = worker._runners.low_water >= 0 or waiting == len(self.buffered)
        return self.begun.is_set() and waiting > 0 and idle  # the state would be running since the claim


@pytest.mark.parametrize("beats_first", [True, False])
def test_jobs_that_others_have_run_do_not_begin(app, clock, beats_first):
    scene = Scene(app)
    with working(app, threads=1, heartbeat=10.0) as worker:
        until(lambda: scene.full(worker))
        beating = worker._heartbeat._beating
        with beating:  # no heartbeat is sent meanwhile
            clock.sleep(app)
            elsewhere = run_elsewhere(app, 1000)
            assert len(elsewhere) > 1
            if not beats_first:
                scene.hold.set()
                until(lambda: worker._claimer.reserved == 0)
        if beats_first:
            worker._heartbeat.beat()
            scene.hold.set()
        last = app.enqueue("quick", "last")
        assert ended(app, last.id).state is JobState.DONE
    assert scene.later == 0
    assert scene.ran["last"] == 1
    assert {handle.state for handle in scene.buffered} == {JobState.DONE}


def test_jobs_that_nobody_has_taken_run_once(app, clock):
    scene = Scene(app)
    with working(app, threads=1, heartbeat=10.0) as worker:
        until(lambda: scene.full(worker))
        with worker._heartbeat._beating:
            clock.sleep(app)
        scene.hold.set()
        for handle in scene.buffered:
            ended(app, handle.id)
    assert set(scene.ran.values()) == {1}
    assert {app.get(handle.id).attempts for handle in scene.buffered} == {1}


def test_after_a_sleep_of_the_machine_jobs_of_other_workers_are_not_taken_back(clock):
    app = Stanchion("memory://")
    steady = steadiness.Steadiness(10.0)
    steady.answered()
    clock.sleep(app)
    assert not steady.steady
    steady.answered()
    assert not steady.steady


def test_a_job_is_held_since_the_first_beat_of_a_series(monkeypatch):
    now = 100.0
    monkeypatch.setattr(holding, "boot_clock", lambda: now)
    held = Holding(10.0)
    assert held.stale
    assert not held.holds(100.0)
    held.answered(99.0)
    assert held.holds(100.0)
    now = 128.9
    assert held.holds(100.0)
    now = 129.0
    assert not held.holds(100.0)
    held.answered(128.9)  # answered too late: others may have seen the gap
    assert not held.holds(100.0)
    assert held.holds(129.0)
