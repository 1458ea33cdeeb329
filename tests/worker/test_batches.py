"""Batch tasks in a worker: what a call gets, when it starts, and how each of its jobs ends."""

import asyncio
import threading
import time
from typing import Any

import pytest

from stanchion import Job, JobState, Reservation, Retry, Stanchion, Worker
from stanchion.context import context_of
from stanchion.errors import JobCancelled
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Rollback
from tests.worker.conftest import Faulty, ended, failed, until, working


def test_few_threads_run_many_jobs_at_once(app):
    calls: list[int] = []

    @app.task(batch=100)
    def double(numbers: list[int]) -> list[int]:
        calls.append(len(numbers))
        return [2 * number for number in numbers]

    handles = double.enqueue_many([(n,) for n in range(250)])
    Worker(app, threads=1, until_empty=True).run()
    assert calls == [100, 100, 50]
    assert [handle.result(timeout=60) for handle in handles] == [2 * n for n in range(250)]


def test_async_batches(app):
    @app.task(batch=50)
    async def double(numbers: list[int]) -> list[int | BaseException]:
        return await asyncio.gather(*map(_doubled, numbers), return_exceptions=True)

    async def _doubled(number: int) -> int:
        await asyncio.sleep(0)
        if number == 7:
            raise ValueError("seven")
        return 2 * number

    with working(app):
        handles = double.enqueue_many([(n,) for n in range(100)])
        assert failed(app, handles[7].id).errors[-1]["error"] == "ValueError: seven"
        done = [handle.result(timeout=60) for n, handle in enumerate(handles) if n != 7]
        assert done == [2 * n for n in range(100) if n != 7]


def test_a_full_batch_starts_at_once(app):
    calls: list[list[int]] = []

    @app.task(batch=3, wait=600)
    def note(numbers: list[int]) -> None:
        calls.append(numbers)

    with working(app, threads=1) as worker:
        for n in range(4):
            note.enqueue(n)
        until(lambda: calls)
        assert calls == [[0, 1, 2]]
        until(lambda: app.queue("default").size().running == 1)
        assert worker.healthy


def test_a_batch_waits_from_its_first_job(app):
    calls: list[tuple[list[int], float]] = []

    @app.task(batch=100, wait=0.5)
    def note(numbers: list[int]) -> None:
        calls.append((numbers, time.monotonic()))

    with working(app):
        pushed = time.monotonic()
        note.enqueue(0)
        until(lambda: app.queue("default").size().running == 1)
        note.enqueue(1)
        until(lambda: calls)
        numbers, began = calls[0]
        assert numbers[0] == 0
        assert began - pushed >= 0.5


def test_jobs_that_wait_take_no_slot(app):
    @app.task(batch=100, wait=600, queue="many")
    def many(numbers: list[int]) -> None:
        raise AssertionError(numbers)

    @app.task
    def one(number: int) -> int:
        return number

    with working(app, threads=1):
        waiting = many.enqueue_many([(n,) for n in range(5)])
        until(lambda: app.queue("many").size().running == 5)
        assert [one.enqueue(n).result(timeout=60) for n in range(3)] == [0, 1, 2]
    assert {handle.state for handle in waiting} == {JobState.READY}
    assert {handle.job().attempts for handle in waiting} == {0}


def test_a_worker_that_ends_when_empty_waits_for_nothing(app):
    @app.task(batch=100, wait=600)
    def note(numbers: list[int]) -> None:
        assert len(numbers) == 5

    handles = note.enqueue_many([(n,) for n in range(5)])
    with working(app, until_empty=True):
        assert {ended(app, handle.id, seconds=60).state for handle in handles} == {JobState.DONE}


def test_other_jobs_are_not_claimed_ahead(app):
    begun, release = threading.Event(), threading.Event()

    @app.task(batch=100)
    def many(numbers: list[int]) -> None:
        assert numbers

    @app.task(queue="slow")
    def slow(number: int) -> int:
        begun.set()
        release.wait(60)
        return number

    many.enqueue_many([(n,) for n in range(100)])
    handles = slow.using(queue="default").enqueue_many([(n,) for n in range(300)])
    with working(app, ["default"], threads=2):
        assert begun.wait(60)
        until(lambda: app.queue("default").size().ready >= 250)
        release.set()
        assert handles[-1].result(timeout=60) == 299


def test_outcomes_are_stored_together():
    store = Faulty(Stanchion("memory://").store)
    app, release = Stanchion(store=store), threading.Event()

    @app.task(batch=200)
    def note(numbers: list[int]) -> list[int]:
        release.wait(60)
        return numbers

    handles = note.enqueue_many([(n,) for n in range(200)])
    with working(app, threads=1):
        until(lambda: app.queue("default").size().running == 200)
        before = store.calls.get("settle", 0)
        release.set()
        assert [handle.result(timeout=60) for handle in handles] == list(range(200))
        assert store.calls["settle"] == before + 1


def test_a_cancelled_job_is_taken_out_of_its_batch(app):
    begun, release, calls = threading.Event(), threading.Event(), list[list[int]]()

    @app.task(batch=10)
    def note(jobs: list[Job], numbers: list[int]) -> list[int]:
        calls.append(numbers)
        begun.set()
        until(lambda: jobs[1].cancelled)
        release.wait(60)
        return numbers

    handles = note.enqueue_many([(n,) for n in range(3)])
    with working(app, heartbeat=0.1):
        assert begun.wait(60)
        handles[1].cancel()
        until(lambda: handles[1].job().cancelled)
        release.set()
        assert [handles[n].result(timeout=60) for n in (0, 2)] == [0, 2]
        assert ended(app, handles[1].id).state is JobState.CANCELLED
        with pytest.raises(JobCancelled):
            handles[1].result(timeout=60)
    assert calls == [[0, 1, 2]]


def test_an_async_batch_is_cancelled_with_its_last_job(app):
    begun, stopped = threading.Event(), threading.Event()

    @app.task(batch=10)
    async def sleep(numbers: list[int]) -> None:
        assert numbers == [0, 1]
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()

    handles = sleep.enqueue_many([(n,) for n in range(2)])
    with working(app, heartbeat=0.1):
        assert begun.wait(60)
        handles[0].cancel()
        until(lambda: handles[0].job().cancelled)
        time.sleep(0.3)
        assert not stopped.is_set()
        handles[1].cancel()
        assert stopped.wait(60)
        assert [ended(app, handle.id).state for handle in handles] == [JobState.CANCELLED] * 2


def test_a_job_that_is_cancelled_while_it_waits_ends_at_once(app):
    @app.task(batch=10, wait=600)
    def note(numbers: list[int]) -> None:
        raise AssertionError(numbers)

    with working(app, threads=2, heartbeat=0.1):
        handles = note.enqueue_many([(n,) for n in range(2)])
        until(lambda: app.queue("default").size().running == 2)
        handles[1].cancel()
        assert ended(app, handles[1].id).state is JobState.CANCELLED
        assert handles[0].state is JobState.RUNNING
        handles[0].cancel()
        assert ended(app, handles[0].id).state is JobState.CANCELLED


def test_a_job_that_is_cancelled_in_the_buffer_does_not_run(app):
    begun, release, calls = threading.Event(), threading.Event(), list[list[int]]()

    @app.task(batch=10, wait=2)
    def note(numbers: list[int]) -> None:
        calls.append(numbers)

    @app.task(queue="other")
    def hold() -> None:
        begun.set()
        release.wait(60)

    hold.enqueue()
    with working(app, threads=2, heartbeat=0.1):
        assert begun.wait(60)
        handles = note.enqueue_many([(n,) for n in range(3)])
        until(lambda: app.queue("default").size().running == 3)
        handles[1].cancel()
        until(lambda: calls)
        release.set()
        assert [ended(app, handle.id).state for handle in handles].count(JobState.CANCELLED) == 1
    assert calls == [[0, 2]]


def test_a_lost_lease_loses_one_job(app, caplog):
    begun, release = threading.Event(), threading.Event()

    @app.task(batch=10)
    def note(numbers: list[int]) -> list[int]:
        begun.set()
        release.wait(60)
        return numbers

    handles = note.enqueue_many([(n,) for n in range(3)])
    store = context_of(app).store
    with working(app, threads=1):
        assert begun.wait(60)
        row = store.fetch([handles[1].id])[handles[1].id]
        store.settle([Rollback(row.lease, 600.0)])
        release.set()
        assert [handles[n].result(timeout=60) for n in (0, 2)] == [0, 2]
        until(lambda: "came too late" in caplog.text)
    assert handles[1].state is JobState.SCHEDULED


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_time_out_is_of_the_call(app, kind):
    def sync(numbers: list[int]) -> None:
        assert numbers == [0, 1]
        until(lambda: False)

    async def asynchronous(numbers: list[int]) -> None:
        assert numbers == [0, 1]
        await asyncio.sleep(600)

    task = app.task(batch=10, timeout=0.2, name="slow")(sync if kind == "sync" else asynchronous)
    handles = task.enqueue_many([(n,) for n in range(2)])
    with working(app, threads=1):
        for handle in handles:
            assert failed(app, handle.id).errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"


def test_the_longest_time_out_of_a_job_is_that_of_the_batch(app):
    @app.task(batch=10, timeout=0.1)
    def note(numbers: list[int]) -> list[int]:
        time.sleep(0.5)
        return numbers

    handles = [note.enqueue(0), note.using(timeout=60).enqueue(1)]
    with working(app, threads=1):
        assert [handle.result(timeout=60) for handle in handles] == [0, 1]


def test_a_running_batch_goes_back_at_the_end_of_the_grace_period(app):
    begun, release = threading.Event(), threading.Event()

    @app.task(batch=10)
    def note(jobs: list[Reservation], numbers: list[int]) -> None:
        jobs[numbers.index(1)].commit("in time")
        begun.set()
        release.wait(60)

    handles = note.enqueue_many([(n,) for n in range(3)])
    with working(app, threads=1):
        assert begun.wait(60)
    release.set()
    assert handles[1].result(timeout=60) == "in time"
    assert [(handles[n].state, handles[n].job().attempts) for n in (0, 2)] == [(JobState.READY, 0)] * 2


def test_a_job_that_has_lost_two_leases_has_a_batch_of_its_own(app):
    calls: list[list[int]] = []

    @app.task(batch=10)
    def note(numbers: list[int]) -> None:
        calls.append(numbers)

    handles = note.enqueue_many([(n,) for n in range(3)])
    store = context_of(app).store
    for _ in range(2):
        (row,) = store.claim(Claim("default", 1, "gone", lease=0.001)).rows
        assert row.id == handles[0].id
        until(lambda: store.recover())
    store.clock_offset += 600
    with working(app, threads=1):
        assert [ended(app, handle.id).state for handle in handles] == [JobState.DONE] * 3
    assert [0] in calls


def test_events_of_each_job(app):
    heard: list[tuple[str, Any]] = []

    @app.task(batch=10, retry=Retry.constant(600))
    def judge(jobs: list[Reservation], words: list[str]) -> list[str | BaseException]:
        jobs[words.index("own")].rollback(error=KeyError("own"))
        return [ValueError(word) if word == "bad" else word for word in words]

    @app.on("started")
    def started(job: Job) -> None:
        heard.append(("started", job.id))

    @app.on("done")
    def done(job: Job) -> None:
        heard.append(("done", job.id))

    @app.on("failed")
    def fails(job: Job, error: BaseException) -> None:
        heard.append((f"failed {error!r}", job.id))

    handles = judge.enqueue_many([("good",), ("bad",), ("own",)])
    with working(app, threads=1):
        until(lambda: len(heard) == 6)
    good, bad, own = (handle.id for handle in handles)
    wanted = [("started", good), ("started", bad), ("started", own), ("done", good)]
    assert sorted(heard) == sorted([*wanted, ("failed ValueError('bad')", bad), ("failed KeyError('own')", own)])


def test_an_error_hides_the_values_of_all_jobs(app):
    @app.task(batch=10, hide=["cards.number"])
    def charge(cards: list[dict[str, str]]) -> None:
        raise ValueError(f"refused {cards[0]['number']} and {cards[1]['number']}")

    handles = charge.enqueue_many([({"number": "4111-1111-1111"},), ({"number": "5222-2222-2222"},)])
    with working(app, threads=1):
        for handle in handles:
            error = failed(app, handle.id).errors[-1]
            assert "4111" not in str(error)
            assert "5222" not in str(error)
