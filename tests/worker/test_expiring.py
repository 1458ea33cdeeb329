"""Jobs that expire while they wait in the worker that has claimed them."""

import threading
from typing import Any

from stanchion import JobState
from stanchion.core.boot_clock import boot_clock
from stanchion.stores.rules import expiry
from stanchion.worker import holding
from stanchion.worker.claiming.pace import Prefetch
from tests.worker.conftest import ended, until, working


def test_a_job_claimed_ahead_does_not_begin_once_it_has_expired(app, monkeypatch):
    monkeypatch.setattr(Prefetch, "jobs", lambda *_: 10)
    passed = 0.0
    monkeypatch.setattr(holding, "boot_clock", lambda: boot_clock() + passed)
    ran, begun, hold = [], threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        begun.set()
        hold.wait(120)

    @app.task
    def quick(name: str) -> None:
        ran.append(name)

    first = long.enqueue()
    jobs = {name: quick.using(expires=seconds).enqueue(name) for name, seconds in (("late", 600), ("in time", 86_400))}
    never = quick.enqueue("never")
    with working(app, threads=1, heartbeat=3600.0) as worker:
        until(lambda: begun.is_set() and worker._runners._buffer.qsize() == 3)
        passed = 601.0
        app.store.clock_offset += passed
        hold.set()
        for job in (first, *jobs.values(), never):
            ended(app, job.id)
    assert ran == ["in time", "never"]
    late = app.get(jobs["late"].id)
    assert (late.state, late.attempts) == (JobState.CANCELLED, 0)
    assert expiry.EXPIRED in late.errors[-1]["error"]
    counts: Any = app.queue("default").counts()
    assert (counts.lapsed, counts.cancelled) == (1, 0)
