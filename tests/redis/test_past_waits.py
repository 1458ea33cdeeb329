"""Past waits in Redis are kept apart from their jobs, and go with them."""

from __future__ import annotations

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Move
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.lifecycle.past_waits import past_waits_of
from tests.redis.conftest import QUEUE


def waited(store: RedisStore) -> JobRow:
    """Return a reserved job that has waited for an order key."""
    store.push([NewJob(new_id(), QUEUE, "{}", order_key="k") for _ in range(2)])
    (held,) = store.claim(Claim(QUEUE, 2, new_id(), lease=1e6)).rows
    assert store.settle([Commit(held.lease)]) == ["done"]
    (row,) = store.claim(Claim(QUEUE, 2, new_id(), lease=1e6)).rows
    return row


def kept_in(store: RedisStore, queue: str) -> list[str]:
    """Return the ids of the jobs whose past waits a queue keeps."""
    found = store.server.command("HKEYS", f"{store.server.keys.queue(queue)}past_waits")
    return sorted(one.decode() for one in found)


@pytest.mark.parametrize("keeps", [True, False])
def test_end_with_the_history_of_the_job(store: RedisStore, *, keeps: bool) -> None:
    store.configure(QUEUE, {"history_ttl": 60.0 if keeps else 0.0})
    row = waited(store)
    assert kept_in(store, QUEUE) == [row.id]
    store.settle([Commit(row.lease)])
    assert kept_in(store, QUEUE) == ([row.id] if keeps else [])
    store.clock_offset = 61.0
    store.maintain()
    assert kept_in(store, QUEUE) == []


@pytest.mark.parametrize("queue", ["next", QUEUE])
def test_go_with_the_job(store: RedisStore, queue: str) -> None:
    row = waited(store)
    store.settle([Bury(row.lease, "no") if queue == QUEUE else Move(row.lease, queue)])
    assert {one: kept_in(store, one) for one in (QUEUE, "next")} == {QUEUE: [], "next": [], queue: [row.id]}
    (found,) = store.fetch([row.id]).values()
    ((slot, since, until),) = past_waits_of(found)
    assert slot == ("order", QUEUE, "k")
    assert since <= until <= since + 60 * SECOND
    assert store.delete([found.ref]) == [True]
    assert kept_in(store, queue) == []


def test_end_with_the_queue(store: RedisStore) -> None:
    waited(store)
    store.drop_queue(QUEUE)
    assert kept_in(store, QUEUE) == []
