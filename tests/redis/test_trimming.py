"""Upkeep of history that is kept for less reads a portion of it, by the commands that Redis gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE
from stanchion_conformance.jobs.retention import adopt
from tests.redis.reads import reads_of

PORTION, MANY = 2000, 9000


@pytest.fixture
def store(redis_server: object, redis_url: str) -> Iterator[RedisStore]:  # noqa: ARG001
    with closing(open_store(redis_url)) as store:
        assert isinstance(store, RedisStore)
        store.server.client.flushdb()
        store.setup()
        yield store


def read(store: RedisStore) -> int:
    """Maintain the store; return the number of entries that the commands named or found."""
    with reads_of(store) as reads:
        store.maintain(seconds=0)
    return reads.count()


def ended(store: RedisStore) -> int:
    return int(store.server.client.zcard(store.server.keys.queue(QUEUE) + "ended"))


def test_an_outcome_kept_for_less_is_looked_for_by_portions(store: RedisStore) -> None:
    store.configure(QUEUE, {"history_ttl_done": 60.0})
    ended_at = store.now() - 100 * SECOND
    adopt(store, "dead", MANY, ended_at)
    adopt(store, "done", 20, ended_at + 1)
    read(store)  # the first one looks at more than history
    assert PORTION < read(store) < 3 * PORTION
    assert store.maintain(seconds=60) == []
    assert ended(store) == MANY
    assert read(store) < 300


def test_a_short_history_is_counted_without_a_look_at_it(store: RedisStore) -> None:
    adopt(store, "done", MANY, store.now())
    read(store)
    idle = read(store)
    store.configure(QUEUE, {"history_max": MANY - 200})
    assert read(store) < idle + 10 * 200
    assert ended(store) == MANY - 200
