"""How often and how much."""

import threading
import time
from contextlib import ExitStack

from stanchion import Stanchion
from stanchion.core.backoff import Backoff
from stanchion.stores.records.jobs import UNLANED
from stanchion.worker.claiming.pace import JITTER, Prefetch, poll_interval
from tests.worker.conftest import Faulty, until, working


def test_the_poll_interval_grows_with_the_fleet_and_has_bounded_jitter():
    for live in (0, 1, 7, 100):
        drawn = [poll_interval(0.5, live) / (0.5 * max(1, live)) for _ in range(500)]
        assert 1 - JITTER <= min(drawn) < 1 - JITTER / 2
        assert 1 + JITTER / 2 < max(drawn) <= 1 + JITTER


def test_an_idle_worker_polls_no_more_often_than_it_should():
    store = Faulty(Stanchion("memory://").store, "stats")
    app = Stanchion(store=store)

    @app.task
    def task() -> None: ...

    with working(app, poll=0.1):
        until(lambda: store.calls.get("stats"))
        before, began = store.calls["stats"], time.monotonic()
        until(lambda: store.calls["stats"] >= before + 4)
        time.sleep(1)
        assert store.calls["stats"] - before <= (time.monotonic() - began) / 0.08 + 2


def test_an_idle_worker_looks_at_all_its_queues_by_one_call():
    store = Faulty(Stanchion("memory://").store, "stats", "claim")
    app = Stanchion(store=store)
    app.task(name="task")(lambda: None)
    queues = [f"queue{n}" for n in range(20)]
    with working(app, queues, poll=0.02):
        until(lambda: store.calls.get("stats"))
        claims, looks = store.calls.get("claim", 0), store.calls["stats"]
        assert claims == 0
        until(lambda: store.calls["stats"] >= looks + 10)
        assert store.calls.get("claim", 0) == claims
        app.enqueue("task", queue=queues[7])
        until(lambda: app.queue(queues[7]).counts().committed == 1)
        assert store.calls["claim"] - claims <= 3


def test_a_job_that_comes_due_in_one_queue_is_not_hidden_by_a_full_one(app):
    release = threading.Event()
    app.task(name="hold")(lambda: release.wait(60))
    app.task(name="later")(lambda: None)
    app.queue("full", max_running=1)
    with working(app, ["full", "other"], poll=300):
        for _ in range(3):
            app.enqueue("hold", queue="full")
        until(lambda: app.queue("full").size().running == 1)
        app.using("later", queue="other", delay=0.5).enqueue()
        until(lambda: app.queue("other").counts().committed == 1)
        release.set()
        until(lambda: app.queue("full").counts().committed == 3)


def test_backoff_doubles_up_to_its_limit():
    backoff = Backoff(first=1, longest=5)
    for bound in (1, 2, 4, 5, 5):
        assert bound / 2 <= backoff.failed() <= bound
    backoff.succeeded()
    assert backoff.failed() <= 1


def test_prefetch_follows_the_rate():
    prefetch = Prefetch(window=0.05, most=1000)
    assert prefetch.jobs(0, 0.0) == 0
    for step in range(1, 30):
        ahead = prefetch.jobs(step * 200, step * 0.02)
    assert 400 <= ahead <= 500
    assert prefetch.jobs(30 * 200 + 10**6, 0.7) == 1000
    assert prefetch.jobs(30 * 200 + 10**6 + 8, 1.7) == 0


def test_prefetch_is_short_where_jobs_come_from_lanes():
    prefetch = Prefetch()
    prefetch.jobs(0, 0.0)
    far = prefetch.jobs(10_000, 1.0)
    prefetch.claimed(lane=3)
    assert prefetch.jobs(20_000, 2.0) < far / 2
    prefetch.claimed(lane=UNLANED)
    assert prefetch.jobs(30_000, 3.0) == far


def test_slow_jobs_stay_in_the_store(app):
    release = threading.Event()

    @app.task
    def slow() -> None:
        release.wait(10)

    slow.enqueue_many([()] * 50)
    with working(app, threads=3):
        until(lambda: app.queue("default").size().running == 3)
        time.sleep(0.2)
        assert app.queue("default").size().running == 3
        release.set()


def test_what_was_taken_for_a_faster_pace_goes_back_to_the_others(app, monkeypatch):
    monkeypatch.setattr("stanchion.worker.claiming.claimer.WAIT_FOR_ROOM", 0.2)
    monkeypatch.setattr("stanchion.worker.heartbeat.QUICK", 0.2)
    release = threading.Event()

    @app.task
    def quick() -> None: ...

    @app.task(priority=-1)
    def slow() -> None:
        release.wait(10)

    quick.enqueue_many([()] * 3000)
    slow.enqueue_many([()] * 500)
    with working(app, ["nothing"], heartbeat=0.2), working(app, threads=2):
        until(lambda: app.queue("default").counts().committed == 3000)
        until(lambda: app.queue("default").size().running == 2)
        assert app.queue("default").size().ready == 498
        release.set()


def test_the_polling_is_shared_among_those_that_share_a_queue(app, monkeypatch):
    shared: dict[float, list[int]] = {0.1: [], 0.2: []}

    def noted(poll: float, sharing: int) -> float:
        shared[poll].append(sharing)
        return poll_interval(poll, 1)

    monkeypatch.setattr("stanchion.worker.claiming.due_queues.poll_interval", noted)
    app.task(name="nothing")(lambda: None)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(working(app, ["busy"], poll=0.1, heartbeat=0.2))
        with working(app, ["quiet", "busy"], poll=0.2, heartbeat=0.2):
            until(lambda: 4 in shared[0.1] and bool(shared[0.2]))
            assert set(shared[0.2]) == {1}
        shared[0.1].clear()
        until(lambda: 3 in shared[0.1])
