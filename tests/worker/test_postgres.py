"""A worker on a database server that comes and goes."""

import threading
import time

import pytest

from stanchion import Stanchion, Worker
from stanchion.stores.registry import open_store
from tests.worker.conftest import until, working


def set_up(url: str) -> Stanchion:
    store = open_store(url)
    store.setup()
    store.close()
    return Stanchion(url)


def test_many_jobs_each_once(pg_url):
    app = set_up(pg_url)
    ran = []

    @app.task
    def note(n: int) -> None:
        ran.append(n)

    note.enqueue_many([(n,) for n in range(3000)])
    Worker(app, until_empty=True).run()
    assert sorted(ran) == list(range(3000))
    assert app.queue("default").counts().committed == 3000
    app.close()


def test_a_new_job_starts_at_once(pg_url):
    app = set_up(pg_url)
    started = threading.Event()

    @app.task
    def go() -> None:
        started.set()

    with working(app, poll=300):
        time.sleep(0.5)
        for _ in range(3):
            go.enqueue()
            assert started.wait(60)
            started.clear()
    app.close()


@pytest.mark.slow
def test_a_worker_outlives_a_restart_of_its_server(own_postgres_server, caplog):
    app = set_up(own_postgres_server.create_database("jobs"))

    @app.task
    def double(n: int) -> int:
        return 2 * n

    with working(app, heartbeat=0.5) as worker:
        assert double.enqueue(1).result(timeout=60) == 2
        own_postgres_server.stop("immediate")
        until(lambda: not worker.healthy)
        time.sleep(1)
        own_postgres_server.start()
        until(lambda: worker.healthy)
        assert double.enqueue(2).result(timeout=60) == 4
        assert double.enqueue(3).result(timeout=60) == 6
    assert "next try in" in caplog.text
    app.close()
