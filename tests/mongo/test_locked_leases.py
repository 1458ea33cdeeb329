"""A job whose lease has expired while somebody's transaction holds it holds up no claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from pymongo import MongoClient
from pymongo.client_session import ClientSession

from stanchion import Push, Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.stores.mongo.claims import expired
from stanchion.stores.mongo.client.place import JOBS
from stanchion.stores.mongo.upkeep import past_locks
from stanchion.stores.records.workers import WorkerRow
from stanchion_conformance.harness import claim
from tests.crash.scene import until


@contextmanager
def transaction_of_another(url: str) -> Iterator[ClientSession]:
    """A transaction over connections of its own: our client drops those whose answers it no longer waits for."""
    client: MongoClient[dict[str, object]] = MongoClient(url)
    with client, client.start_session() as session, session.start_transaction():
        yield session


@pytest.mark.parametrize("lanes", [1, 4])
def test_claims_of_other_queues(mongo_url: str, monkeypatch: pytest.MonkeyPatch, lanes: int) -> None:
    monkeypatch.setattr(expired, "_REMEMBERED_SECONDS", 60.0)
    monkeypatch.setattr(expired, "SECONDS", 4.0)
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        queue, other = app.queue("orders"), app.queue("others")
        other.configure(lanes=lanes)
        for n in range(3):
            queue.push(n)
        for n in range(5):
            other.push(n)
        held, *lost = queue.reserve(3, lease=30)
        with transaction_of_another(mongo_url) as transaction:
            held.commit(tx=transaction)
            app.store.clock_offset += 31
            for _ in range(5):
                assert len(other.reserve(1, lease=3600)) == 1
            # Those that nobody has locked have come back.
            assert {job.id for job in queue.reserve(3, lease=3600)} == {job.id for job in lost}
        assert queue.size().total == 2


def test_the_locked_job_comes_back_after_a_moment(mongo_url: str) -> None:
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        queue, other = app.queue("orders"), app.queue("others")
        queue.push(1)
        (held,) = queue.reserve(lease=30)
        with transaction_of_another(mongo_url) as transaction:
            held.commit(tx=transaction)
            app.store.clock_offset += 31
            assert other.reserve(1) == []
            transaction.abort_transaction()
        assert until(lambda: queue.reserve(lease=30), 60, "the job")[0].id == held.id


def test_recovery_goes_past_a_locked_job(mongo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_locks, "SECONDS", 4.0)
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        queue = app.queue("orders")
        queue.push_many(range(9))
        jobs = queue.reserve(9, lease=30)
        held, lost = jobs[4], {job.id for job in jobs if job is not jobs[4]}
        with transaction_of_another(mongo_url) as transaction:
            held.commit(tx=transaction)
            app.store.clock_offset += 31
            freed: set[str] = set()
            for _ in range(2):
                freed |= {row.id for row in app.store.recover()}
            assert freed == lost
            # It is known by now, and tried alone; others come back beside it.
            queue.push(9)
            other = next(job for job in queue.reserve(9, lease=30) if job.id not in lost)
            app.store.clock_offset += 31
            assert other.id in {row.id for row in app.store.recover()}
            transaction.abort_transaction()
        assert until(lambda: app.store.recover(), 60, "the job")[0].id == held.id


def test_jobs_that_another_process_has_freed_are_not_returned(mongo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that a lock interrupts says what it has freed itself."""
    monkeypatch.setattr(past_locks, "SECONDS", 4.0)
    with closing(Stanchion(mongo_url)) as app, closing(Stanchion(mongo_url)) as another:
        app.setup()
        app.queue("orders").push_many(range(6))
        held, *lost = app.queue("orders").reserve(6, lease=30)
        with transaction_of_another(mongo_url) as transaction:
            held.commit(tx=transaction)
            app.store.clock_offset += 31
            another.store.clock_offset += 31
            store: Any = app.store
            write, theirs = store._jobs.compare_and_set, list[str]()

            def written_after_another(changes: Any) -> Any:
                monkeypatch.undo()
                monkeypatch.setattr(past_locks, "SECONDS", 4.0)
                rows = another.store.recover(limit=3)
                theirs.extend(row.id for row in rows)
                return write(changes)

            monkeypatch.setattr(store._jobs, "compare_and_set", written_after_another)
            ours = [row.id for row in app.store.recover()]
            assert theirs
            assert sorted(ours + theirs) == sorted(job.id for job in lost)
            transaction.abort_transaction()


@pytest.mark.parametrize("place", [0, 2], ids=["outbox", "slots"])
def test_recovery_of_slots_goes_past_a_locked_job(mongo_url: str, monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """The process that freed these slots is gone; a waiter for one of them is locked."""
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        store: Any = app.store
        queue, names = app.queue("orders"), ["a", "b", "c", "d", "e"]
        for name in names:
            app.semaphore(name, capacity=1)
            queue.push_many([Push(name, limits=[name]), Push(name, limits=[name])])
        held = queue.reserve(10, lease=3600)
        assert len(held) == len(names)
        assert queue.size().waiting == len(names)
        waiters = {job.payload: job.id for job in queue.find(state="waiting")}
        monkeypatch.setattr(store._outbox, "follow_up", lambda _: None)
        for one in held:
            one.commit()
        monkeypatch.undo()
        monkeypatch.setattr(past_locks, "ITEM_SECONDS", 0.1)
        part = store._recovered[place]
        store.clock_offset += 4
        with transaction_of_another(mongo_url) as session:
            jobs = session.client.get_default_database()[JOBS]
            jobs.update_one({"_id": waiters["c"]}, {"$set": {"headers": "{}"}}, session=session)
            assert queue.size().ready == 0
            until(lambda: part.recover() or queue.size().ready == len(names) - 1, 60, "the others")
            assert {job.payload for job in queue.find(state="ready")} == set(names) - {"c"}
            session.abort_transaction()
        until(lambda: part.recover() or queue.size().ready == len(names), 60, "the job")


def test_a_part_of_recovery_that_waits_does_not_keep_others_from_theirs(
    mongo_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        store: Any = app.store
        waits = Mock(**{"recover.side_effect": StoreUnavailable("locked")})
        monkeypatch.setattr(store, "_recovered", (waits, other := Mock()))
        with pytest.raises(StoreUnavailable, match="locked"):
            store._recover_outbox()
        other.recover.assert_called_once_with()


def test_recovery_of_a_dead_worker_goes_past_a_locked_job(mongo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_locks, "SECONDS", 4.0)
    with closing(Stanchion(mongo_url)) as app:
        app.setup()
        app.store.beat([WorkerRow("w", "host", 1, ("orders",), 2, heartbeat=10.0)])
        app.queue("orders").push_many(range(2))
        held, lost = claim(app.store, 2, worker="w", queue="orders")
        with transaction_of_another(mongo_url) as transaction:
            app.reservation(held.id, held.token or "").commit(tx=transaction)
            app.store.clock_offset += 31
            assert [row.id for row in app.store.recover()] == [lost.id]
