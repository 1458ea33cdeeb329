"""Maintenance reads as much as it has to do, and no more."""

from collections.abc import Callable
from typing import Any

import pytest
from pymongo.collection import Collection

from stanchion.ids import new_id
from stanchion.stores.records import Claim
from stanchion.testing.conformance.harness import QUEUE, NewStore, new_job


def test_maintenance_lists_nothing_without_a_filter(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    distinct: Callable[..., Any] = Collection.distinct
    asked: list[Any] = []

    def heard(collection: Any, key: str, *args: Any, **options: Any) -> Any:
        asked.append(args)
        return distinct(collection, key, *args, **options)

    store = new_store()
    store.push([new_job(queue=queue) for queue in (QUEUE, "other") for _ in range(3)])
    assert len(store.pop(Claim(QUEUE, 2, new_id()))) == 2
    monkeypatch.setattr(Collection, "distinct", heard)
    store.maintain()
    assert all(args and args[0] for args in asked)
    assert (store.counts(QUEUE).pushed, store.counts(QUEUE).popped, store.counts("other").pushed) == (3, 2, 3)


def test_maintenance_counts_what_happened_in_a_queue_that_was_dropped(new_store: NewStore) -> None:
    store, other = new_store(), new_store()
    store.push([new_job(queue="gone")])
    other.drop_queue("gone")
    store.push([new_job(queue="gone")])
    assert "gone" not in [settings.name for settings in other.queues()]
    other.maintain()
    assert other.counts("gone").pushed == 1
    assert "gone" in [settings.name for settings in other.queues()]
