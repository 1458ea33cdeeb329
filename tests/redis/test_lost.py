"""What running processes have declared comes back when the server has lost it."""

from __future__ import annotations

import pytest

from stanchion import Stanchion, Worker
from stanchion.errors import InvalidInput
from stanchion.stores.redis.store import RedisStore
from tests.crash.scene import until
from tests.redis.conftest import Open


@pytest.fixture
def store(redis_url: str, opened: Open) -> RedisStore:
    return opened(redis_url)


@pytest.fixture
def app(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> Stanchion:
    """An app that looks at once whether what it has declared is there still."""
    monkeypatch.setattr("stanchion.context.declarations.semaphores.SEEN_FOR", 0.0)
    app = Stanchion(store=store)
    app.semaphore("smtp", 5)
    return app


def test_by_one_that_pushes(app: Stanchion, store: RedisStore) -> None:
    app.queue("mail").push(1, limits=["smtp"])
    store.server.client.flushdb()
    app.queue("mail").push(1, limits=["smtp"])
    assert [(row.name, row.capacity) for row in store.semaphores()] == [("smtp", 5)]


def test_by_one_that_reserves(app: Stanchion, store: RedisStore) -> None:
    mail = app.queue("mail")
    mail.push_many(range(9))
    store.server.client.flushdb()
    mail.reserve(1)
    assert [(row.name, row.capacity) for row in store.semaphores()] == [("smtp", 5)]


def test_by_a_worker(app: Stanchion, store: RedisStore) -> None:
    app.task(len)
    worker = Worker(app, ["mail"], threads=1, heartbeat=0.2)
    worker.start()
    try:
        until(store.semaphores, 120, "the worker has stored what the code declares")
        store.server.client.flushdb()
        until(store.semaphores, 120, "it has stored it again")
    finally:
        worker.stop()
    assert [(row.name, row.capacity) for row in store.semaphores()] == [("smtp", 5)]


def test_a_job_that_needs_what_nobody_declares_any_more_is_refused(app: Stanchion, store: RedisStore) -> None:
    store.set_semaphore("by hand", 1)
    app.queue("mail").push(1, limits=["by hand"])
    store.server.client.flushdb()
    with pytest.raises(InvalidInput, match="no semaphore 'by hand'"):
        app.queue("mail").push(1, limits=["by hand"])


def test_one_seen_lately_is_not_asked_for(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Stanchion(store=store)
    app.semaphore("smtp", 5)
    app.queue("mail").push(1, limits=["smtp"])
    asked = 0

    def semaphores() -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr(store, "semaphores", semaphores)
    app.queue("mail").push_many(9 * [1])
    app.queue("mail").push(1, limits=["smtp"])
    assert asked == 0
