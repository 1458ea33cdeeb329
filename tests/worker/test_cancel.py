"""Cancelling what runs."""

import asyncio
import threading
import time

import pytest

from stanchion import Job, JobState, Reservation
from stanchion.context import context_of
from stanchion.core.boot_clock import boot_clock
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Abandon
from stanchion.worker.running.attempt import Finished
from stanchion.worker.running.default_timeouts import DefaultTimeouts
from stanchion.worker.running.hearers import Hearers
from stanchion.worker.running.runner import Runners
from tests.worker.conftest import ended, until, working

pytestmark = pytest.mark.parametrize("app", ["memory"], indirect=True)


def test_an_async_job_is_cancelled(app):
    begun = threading.Event()

    @app.task
    async def sleep() -> None:
        begun.set()
        await asyncio.sleep(30)

    with working(app, heartbeat=0.1):
        handle = sleep.enqueue()
        assert begun.wait(60)
        assert handle.cancel() is JobState.RUNNING
        assert ended(app, handle.id).state is JobState.CANCELLED


def test_a_sync_job_sees_that_it_should_stop(app):
    begun = threading.Event()

    @app.task
    def watchful(job: Job) -> None:
        begun.set()
        until(lambda: job.cancelled)
        raise InterruptedError

    with working(app, heartbeat=0.1):
        handle = watchful.enqueue()
        assert begun.wait(60)
        handle.cancel()
        assert ended(app, handle.id).state is JobState.CANCELLED


def test_a_job_that_finishes_all_the_same_is_done(app):
    begun, release = threading.Event(), threading.Event()

    @app.task
    def busy() -> int:
        begun.set()
        release.wait(30)
        return 1

    with working(app, heartbeat=0.1):
        handle = busy.enqueue()
        assert begun.wait(60)
        handle.cancel()
        release.set()
        assert handle.result(timeout=60) == 1


def test_a_long_job_hears_of_it_between_heartbeats(app, monkeypatch):
    monkeypatch.setattr("stanchion.worker.heartbeat.QUICK", 0.3)
    begun = threading.Event()

    @app.task
    def watchful(job: Reservation) -> None:
        begun.set()
        until(lambda: job.cancelled)
        job.abandon("as asked")

    with working(app, heartbeat=600):
        handle = watchful.enqueue()
        assert begun.wait(60)
        time.sleep(0.3)
        asked = time.monotonic()
        handle.cancel()
        assert ended(app, handle.id).state is JobState.CANCELLED
        assert time.monotonic() - asked < 200


def test_a_job_that_is_cancelled_in_the_buffer_does_not_run(app):
    ran: list[int] = []
    finished: list[Finished] = []

    @app.task
    def task(n: int) -> None:
        ran.append(n)

    runners = Runners(
        *(context_of(app), 1, DefaultTimeouts(context_of(app), None, 10)),
        Hearers(finished.extend, room=lambda: None, stuck=lambda: None),
    )
    handle = task.enqueue(1)
    (row,) = app.store.claim(Claim("default", 1, "token", worker="me")).rows
    runners.cancel([handle.id])
    runners.add([row], 1, boot_clock())
    ((outcome, _, _),) = until(lambda: list(finished))
    assert outcome == Abandon(row.lease)
    assert ran == []
    runners.stop()
