"""Connections that the PostgreSQL server ends."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.crash.producer import Pushing
from tests.crash.scene import Scene, until
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

POLL = 0.5
LONGEST_POLL = POLL * 1.2
MARGIN = 1.0

Terminate = Callable[[str], int]


@pytest.fixture
def terminate(pg_scene: Scene, postgres_server: PostgresServer) -> Terminate:
    """A function that ends the connections whose last query begins so; it returns how many that were."""
    database = make_url(pg_scene.url).database

    def end(query: str) -> int:
        with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
            ended = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND query LIKE %s",
                [database, f"{query}%"],
            )
            return len(ended.fetchall())

    return end


def test_work_goes_on_while_all_connections_are_ended(pg_scene: Scene, terminate: Terminate) -> None:
    scene = pg_scene
    workers = [scene.worker(), scene.worker()]
    producers = [scene.producer(Pushing(seconds=0.01, repeats=repeats)) for repeats in (True, False)]
    scene.advances(50, 30, "before")
    ended = 0
    for _ in range(20):
        ended += terminate("")
        time.sleep(random.uniform(0, 0.4))
    assert ended > 20
    scene.advances(50, 30, "afterwards")
    scene.end(*producers)
    scene.drained(30)
    scene.end(*workers)
    scene.verify()


def test_a_job_pushed_without_a_listener_starts_within_a_poll(pg_scene: Scene, terminate: Terminate) -> None:
    worker = pg_scene.worker()
    pg_scene.delay()
    for _ in range(5):
        until(lambda: terminate("LISTEN"), 10, "a listener to end")
        assert pg_scene.delay() < LONGEST_POLL + MARGIN
    pg_scene.end(worker)
    pg_scene.verify()


def test_wake_up_heals(pg_scene: Scene, terminate: Terminate) -> None:
    worker = pg_scene.worker("--poll", "30s")
    pg_scene.delay()
    for _ in range(3):
        until(lambda: terminate("LISTEN"), 10, "a listener to end")
        assert pg_scene.delay() < 5 + MARGIN  # it may just have connected again, and be waking all
        assert pg_scene.delay() < MARGIN
    pg_scene.end(worker)
    pg_scene.verify()
