"""Who waits for a job waits for the store, too."""

import threading
import time
from collections.abc import Iterator

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.jobs.handle import JobHandle
from stanchion.stores.records.claims import Claim, Claimed
from stanchion_conformance.harness import in_threads
from tests.worker.conftest import Faulty, until


@pytest.fixture
def store() -> Faulty:
    store = Faulty(Stanchion("memory://").store)
    store.error = StoreUnavailable("gone")
    return store


@pytest.fixture
def app(store) -> Stanchion:
    return Stanchion(store=store)


@pytest.fixture
def back_soon(store) -> Iterator[None]:
    """The store is away, for half a second."""
    store.broken = True
    timer = threading.Timer(0.5, lambda: setattr(store, "broken", False))
    timer.start()
    yield
    timer.join()


def test_for_a_result(app, store, request):
    job = app.queue("q").push(1)
    app.queue("q").pop()
    request.getfixturevalue("back_soon")
    assert JobHandle(app, job.id).result(timeout=60) is None
    assert not store.broken


@pytest.mark.parametrize("take", ["reserve", "pop"])
def test_for_a_job(app, store, take, request):
    q = app.queue("q")
    q.push(1)
    request.getfixturevalue("back_soon")
    assert q.reserve(wait=10) if take == "reserve" else q.pop(wait=10)
    assert not store.broken


def test_in_the_midst_of_the_wait(app, store):
    q = Stanchion(store=store, poll=0.1).queue("q", lease=30)

    def break_for_a_while() -> None:
        until(lambda: store.calls.get("claim"))
        store.broken, before = True, store.calls["claim"]
        until(lambda: store.calls["claim"] >= before + 2)
        store.broken = False
        app.queue("q").push(1)

    with in_threads([break_for_a_while]):
        assert [job.payload for job in q.reserve(wait=60)] == [1]


def test_until_its_own_time_is_over(app, store):
    q = app.queue("q")
    job = q.push(1)
    store.broken = True
    for wait in (
        lambda: q.reserve(wait=0.5),
        lambda: q.pop(wait=0.5),
        lambda: JobHandle(app, job.id).result(timeout=0.5),
    ):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="gone"):
            wait()
        assert 0.5 <= time.monotonic() - began < 50


def test_not_where_waiting_does_not_help(app, store):
    q = app.queue("q")
    job = q.push(1)
    store.broken, store.error = True, StoreUnavailable("wrong password", lasting=True)
    with pytest.raises(StoreUnavailable, match="wrong password"):
        q.reserve(wait=1000)
    with pytest.raises(StoreUnavailable, match="wrong password"):
        JobHandle(app, job.id).result()


def test_jobs_reserved_by_a_call_that_was_not_answered_are_the_answer(app, store):
    claim, answers = store._store.claim, iter([False, True])

    def reply_lost(wish: Claim) -> Claimed:
        claimed: Claimed = claim(wish)
        if not next(answers):
            raise StoreUnavailable("the answer got lost")
        return claimed

    store._store.claim = reply_lost
    q = app.queue("q")
    q.push_many([1, 2])
    (job,) = q.reserve(1, wait=5)
    job.commit()
    assert (job.payload, q.counts().reserved, q.size().ready) == (1, 1, 1)
