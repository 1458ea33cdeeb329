"""Maintenance reads as much as it has to do, and no more."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pymongo import MongoClient, monitoring
from pymongo.collection import Collection

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Move
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, NewStore, claim, counts_of, new_job
from stanchion_conformance.jobs.retention import adopt
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


MANY = 5000


class Replies(monitoring.CommandListener):
    """Counts the commands of all clients made from now on, and the documents that the server returns."""

    def __init__(self) -> None:
        self.commands, self.documents = 0, 0

    def started(self, event: monitoring.CommandStartedEvent) -> None: ...

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self.commands += 1
        cursor = event.reply.get("cursor", {})
        self.documents += len(cursor.get("firstBatch", ())) + len(cursor.get("nextBatch", ()))

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


@pytest.fixture
def maintained(monkeypatch: pytest.MonkeyPatch) -> Callable[[Store], tuple[int, int]]:
    """Returns how many commands a round of upkeep without time takes, and how many documents it reads."""
    heard = Replies()
    made: Callable[..., Any] = MongoClient
    monkeypatch.setattr(
        "stanchion.stores.mongo.client.server.MongoClient",
        lambda *args, **options: made(*args, **options, event_listeners=[heard]),
    )

    def cost(store: Store) -> tuple[int, int]:
        heard.commands = heard.documents = 0
        store.maintain(seconds=0)
        return heard.commands, heard.documents

    return cost


def test_an_outcome_kept_for_less_is_found_without_reading_others(
    new_store: NewStore, queue: str, maintained: Callable[[Store], tuple[int, int]]
) -> None:
    store = new_store()
    ended_at = store.now() - 100 * SECOND
    adopt(store, "dead", MANY, ended_at, queue)
    done = adopt(store, "done", 20, ended_at + 1, queue)
    maintained(store)  # the first round looks at more than history
    commands, documents = maintained(store)
    store.configure(queue, {"history_ttl_done": 60.0})
    more_commands, more_documents = maintained(store)
    assert more_commands < commands + 20
    assert more_documents < documents + 30
    assert store.maintain(seconds=60) == []
    assert store.fetch(done) == {}
    assert maintained(store)[1] < documents + 10


def test_a_short_history_is_read_as_far_as_it_is_too_long(
    new_store: NewStore, queue: str, maintained: Callable[[Store], tuple[int, int]]
) -> None:
    store = new_store()
    jobs = adopt(store, "done", MANY, store.now(), queue)
    maintained(store)
    _, documents = maintained(store)
    store.configure(queue, {"history_max": MANY - 200})
    assert 200 <= maintained(store)[1] - documents < 5 * 200  # each is read before it is counted, and again
    assert len(store.fetch(jobs)) == MANY - 200
    assert maintained(store)[1] < documents + 10
