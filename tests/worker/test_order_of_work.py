"""Which jobs run when: queues in turn, limits, slow jobs, outcomes in groups."""

import threading
import time

from stanchion import Stanchion, Worker
from tests.worker.conftest import Faulty, working


def test_no_queue_starves(app):
    order = []

    @app.task
    def task(queue: str) -> None:
        order.append(queue)

    for queue in ("a", "b"):
        task.using(queue=queue).enqueue_many([(queue,)] * 40)
    Worker(app, ["a", "b"], threads=1, until_empty=True).run()
    assert {"a", "b"} == set(order[:10])


def test_until_empty_waits_for_what_its_jobs_enqueue(app):
    ran = []

    @app.task
    def task(n: int) -> None:
        time.sleep(0.02)
        ran.append(n)
        if n:
            task.enqueue(n - 1)

    task.enqueue(3)
    task.using(delay=60).enqueue(9)
    Worker(app, until_empty=True).run()
    assert ran == [3, 2, 1, 0]


def test_max_running_does_not_wait_for_polls(app):
    @app.task
    def task() -> None: ...

    app.queue("default", max_running=1)
    task.enqueue_many([()] * 20)
    began = time.monotonic()
    Worker(app, until_empty=True, poll=300).run()
    assert time.monotonic() - began < 200
    assert app.queue("default").counts().committed == 20


def test_max_rate_is_kept_and_used(app):
    @app.task
    def task() -> None: ...

    app.queue("default", max_rate=50)
    task.enqueue_many([()] * 30)
    began = time.monotonic()
    Worker(app, until_empty=True, poll=300).run()
    assert 0.35 < time.monotonic() - began < 200


def test_a_slow_job_does_not_hold_others_up(app):
    """A buffered job must not wait behind a long one while threads are free."""
    release = threading.Event()

    @app.task
    def slow() -> None:
        release.wait(60)

    @app.task
    def quick() -> int:
        return 1

    with working(app, threads=2):
        for _ in range(5):
            quick.enqueue().result(timeout=60)
        slow.enqueue()
        handles = quick.enqueue_many([()] * 50)
        assert [handle.result(timeout=60) for handle in handles] == [1] * 50
        release.set()


def test_outcomes_are_stored_in_groups():
    app = Stanchion("memory://")
    store = Faulty(app.store, "settle", "claim")
    app = Stanchion(store=store)

    @app.task
    def task() -> None: ...

    task.enqueue_many([()] * 5000)
    Worker(app, until_empty=True).run()
    assert app.queue("default").counts().committed == 5000
    assert store.calls["settle"] < 250
    assert store.calls["claim"] < 250
