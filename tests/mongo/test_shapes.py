"""The stored shapes of queues: a push costs no command for them after the first, and no job is missed without them."""

from collections.abc import Callable
from typing import Any

import pytest
from pymongo.collection import Collection

from stanchion.core.ids import new_id
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.protocol import Store
from stanchion.stores.rules.capacity.shapes import FEW
from stanchion_conformance.harness import NewStore, new_job
from stanchion_conformance.operate.shapes import SLOTS, finish_all, shape


@pytest.fixture
def queue() -> str:
    """A queue of its own for each test."""
    return new_id()


def set_back(store: Store, queue: str) -> None:
    """Set the shape of a queue back, whatever jobs it has."""
    assert isinstance(store, MongoStore)
    store.server.outside.place.queues.update_one({"_id": queue}, {"$unset": {"uses_lanes": "", "uses_slots": ""}})
    assert shape(store, queue) == "plain"


def test_only_the_first_push_stores_it(new_store: NewStore, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, written = new_store(), []
    update_one: Callable[..., Any] = Collection.update_one

    def heard(collection: Any, *args: Any, **options: Any) -> Any:
        written.append(collection.name)
        return update_one(collection, *args, **options)

    monkeypatch.setattr(Collection, "update_one", heard)
    for expected in (1, 1, 1):
        store.push([new_job(queue=queue, lane=3), new_job(queue=queue, limits=SLOTS)])
        assert len(written) == expected
    store.push([new_job(queue=queue)])
    assert len(written) == 1
    assert shape(store, queue) == "limited"


def test_a_claim_finds_jobs_in_lanes_of_a_queue_that_was_set_back(new_store: NewStore, queue: str) -> None:
    store, other = new_store(), new_store()
    store.push([new_job(queue=queue, lane=3)])
    set_back(other, queue)
    store.push([new_job(queue=queue, lane=2), new_job(queue=queue)])
    assert shape(other, queue) == "plain", "this process knew better"
    assert len(finish_all(other, queue)) == 3


def test_who_reads_the_settings_stores_it_again(new_store: NewStore, queue: str) -> None:
    store, other = new_store(), new_store()
    store.push([new_job(queue=queue, limits=SLOTS)])
    set_back(other, queue)
    assert finish_all(store, queue)
    store.push([new_job(queue=queue, limits=SLOTS)])
    assert shape(other, queue) == "slots"


@pytest.mark.parametrize(("need", "expected"), [({"lane": 3}, "lanes"), ({"order_key": "k"}, "slots")])
def test_upkeep_sets_right_what_is_missing(
    new_store: NewStore, queue: str, need: dict[str, Any], expected: str
) -> None:
    store = new_store()
    store.push([new_job(queue=queue, **need)])
    set_back(store, queue)
    store.maintain()
    assert shape(store, queue) == expected


def test_with_many_jobs_it_stays(new_store: NewStore, queue: str) -> None:
    store = new_store()
    store.configure(queue, {"uses_slots": True})
    jobs = [new_job(queue=queue) for _ in range(FEW + 1)]
    store.push(jobs)
    store.maintain()
    assert shape(store, queue) == "slots"
    store.cancel([jobs[0].id])
    store.maintain()
    assert shape(store, queue) == "plain"
