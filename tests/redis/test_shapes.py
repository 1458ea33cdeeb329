"""The stored shapes of queues: upkeep reads little for them, and sets right what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.shapes import FEW
from stanchion_conformance.harness import claim, new_job
from stanchion_conformance.operate.shapes import shape
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.reads import reads_of


@pytest.fixture
def store(redis_url: str, opened: Open) -> RedisStore:
    return opened(redis_url)


@pytest.mark.parametrize(("need", "expected"), [({"lane": 3}, "lanes"), ({"order_key": "k"}, "slots")])
def test_upkeep_sets_right_what_is_missing(store: RedisStore, need: dict[str, Any], expected: str) -> None:
    store.push([new_job(queue=QUEUE, **need)])
    store.server.command("HDEL", store.server.keys.queue(QUEUE) + "settings", "uses_lanes", "uses_slots")
    assert shape(store, QUEUE) == "plain"
    store.maintain()
    assert shape(store, QUEUE) == expected


def test_with_many_jobs_it_stays_and_they_are_not_read(store: RedisStore) -> None:
    store.push([new_job(queue=QUEUE, lane=3), *new_jobs(FEW)])
    (row,) = claim(store, queue=QUEUE, lanes=(3, 3))
    store.settle([Commit(row.lease)])
    store.push(new_jobs(1))
    with reads_of(store) as reads:
        store.maintain()
    assert reads.count() < FEW
    assert shape(store, QUEUE) == "lanes"
