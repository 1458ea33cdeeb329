"""Workers and producers behind a pool in transaction mode."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from tests.crash.producer import Pushing
from tests.crash.scene import TIMEOUT_SECONDS, Scene
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow

WORKERS = 2
LONGEST_POLL = 0.5 * WORKERS * 1.2
MARGIN = 10.0


@pytest.fixture
def pool(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pool that the test may restart."""
    with PgBouncer(postgres_server) as pool:
        yield pool


@pytest.mark.nightly
def test_everything_works_by_polling(pg_scene: Scene, pool: PgBouncer) -> None:
    scene = pg_scene
    url = pool.url(make_url(scene.url).database or "")
    workers = [scene.worker(url=url) for _ in range(WORKERS)]
    producer = scene.producer(Pushing(batches=60, pause=0.01, seconds=0.01), url=url)
    assert producer.wait(TIMEOUT_SECONDS) == 0
    scene.drained()
    for _ in range(5):
        time.sleep(0.2)
        assert scene.delay() < LONGEST_POLL + MARGIN
    scene.end(*workers)
    scene.verify()


@pytest.mark.nightly
def test_work_goes_on_after_the_pool_restarts(pg_scene: Scene, pool: PgBouncer) -> None:
    scene = pg_scene
    url = pool.url(make_url(scene.url).database or "")
    worker = scene.worker(url=url)
    producer = scene.producer(Pushing(seconds=0.01), url=url)
    for _ in range(3):
        scene.advances(50, "between restarts")
        pool.restart()
    scene.advances(50, "after the last restart")
    scene.end(producer)
    scene.drained()
    scene.end(worker)
    scene.verify()
