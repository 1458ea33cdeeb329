"""Maintenance reads as much as it has to do, and no more."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pymongo.collection import Collection

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Move
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, NewStore, claim, counts_of, new_job
from tests.mongo.acts import purged


def test_maintenance_lists_nothing_without_a_filter(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    distinct: Callable[..., Any] = Collection.distinct
    asked: list[Any] = []

    def heard(collection: Any, key: str, *args: Any, **options: Any) -> Any:
        asked.append(args)
        return distinct(collection, key, *args, **options)

    store = new_store()
    store.push([new_job(queue=queue) for queue in (QUEUE, "other") for _ in range(3)])
    assert len(pop(store, Claim(QUEUE, 2, new_id())).rows) == 2
    monkeypatch.setattr(Collection, "distinct", heard)
    store.maintain()
    assert all(args and args[0] for args in asked)
    assert (counts_of(store, QUEUE).pushed, counts_of(store, QUEUE).popped, counts_of(store, "other").pushed) == (
        3,
        2,
        3,
    )


def test_maintenance_counts_what_happened_in_a_queue_that_was_dropped(new_store: NewStore) -> None:
    store, other = new_store(), new_store()
    store.push([new_job(queue="gone")])
    other.drop_queue("gone")
    store.push([new_job(queue="gone")])
    assert "gone" not in [settings.name for settings in other.queues()]
    other.maintain()
    assert counts_of(other, "gone").pushed == 1
    assert "gone" in [settings.name for settings in other.queues()]


@pytest.fixture
def queue() -> str:
    """A queue of its own for each test."""
    return new_id()


def finish(store: Store, queue: str, jobs: int) -> None:
    store.push([new_job(queue=queue) for _ in range(jobs)])
    commit(store, claim(store, jobs, queue=queue))


def commit(store: Store, rows: Sequence[JobRow]) -> None:
    assert None not in store.settle([Commit(row.lease) for row in rows])


def test_a_purge_takes_few_commands(new_store: NewStore, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    finish(store, queue, 60)
    monkeypatch.setattr("stanchion.stores.mongo.operate._PURGED_AT_ONCE", 20)
    writes: list[str] = []

    def heard(name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            writes.append(name)
            return does(*args, **options)

        return call

    for name in ("update_one", "update_many", "delete_many", "bulk_write"):
        monkeypatch.setattr(Collection, name, heard(name, getattr(Collection, name)))
    assert (purged(store, queue, 50), purged(store, queue, 50)) == (50, 10)
    assert writes == ["update_one", "delete_many", "update_one"] * 4
    counts = counts_of(store, queue)
    assert (counts.pushed, counts.reserved, counts.committed) == (60, 60, 60)
    store.maintain()
    finish(store, queue, 5)
    store.maintain()  # counts what happened
    writes.clear()
    assert (purged(store, queue), counts_of(store, queue).committed, writes) == (5, 65, ["delete_many"])


def test_a_job_that_is_retried_while_it_is_purged(
    new_store: NewStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = new_store(), new_store()
    finish(store, queue, 3)
    store.push([new_job(queue=queue)])
    (job,) = claim(store, queue=queue)
    store.settle([Bury(job.lease, "why")])
    delete_many = Collection.delete_many

    def late(collection: Any, *args: Any) -> Any:
        monkeypatch.undo()
        other.retry([job.id])
        return delete_many(collection, *args)

    monkeypatch.setattr(Collection, "delete_many", late)
    assert purged(store, queue) == 3
    (row,) = claim(store, queue=queue)
    assert row.id == job.id
    commit(store, [row])
    counts = counts_of(store, queue)
    assert (counts.pushed, counts.reserved, counts.buried, counts.committed) == (4, 5, 1, 4)


def test_events_that_another_counts_while_jobs_are_purged(
    new_store: NewStore, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = new_store(), new_store()
    finish(store, queue, 3)
    update_one = Collection.update_one

    def late(collection: Any, *args: Any) -> Any:
        monkeypatch.undo()
        other.maintain()
        return update_one(collection, *args)

    monkeypatch.setattr(Collection, "update_one", late)
    assert purged(store, queue) == 3
    counts = counts_of(store, queue)
    assert (counts.pushed, counts.reserved, counts.committed) == (3, 3, 3)


def test_what_happened_elsewhere_to_jobs_that_are_purged(new_store: NewStore, queue: str) -> None:
    store, other = new_store(), new_id()
    store.push([new_job(queue=other), new_job(queue=queue)])
    (job,) = claim(store, queue=other)
    store.settle([Move(job.lease, queue)])
    commit(store, claim(store, 2, queue=queue))
    assert purged(store, queue) == 2
    assert (counts_of(store, other).pushed, counts_of(store, other).moved, counts_of(store, queue).committed) == (
        1,
        1,
        2,
    )
