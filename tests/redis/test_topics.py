"""Events of topics, and processes that die at any step of storing their jobs."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.stores.cas.entries import STALE
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.redis.store import RedisStore
from stanchion.topics.topic import Topic
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, ways

NAMES = ("audit", "stock")


def topic_in(store: RedisStore) -> Topic:
    return Stanchion(store=store).topic("sales")


@pytest.mark.slow
@ways
def test_all_subscribers_get_an_event_or_none(opened: Open, url: str, way: Way) -> None:
    def prepare(store: RedisStore) -> None:
        for name in NAMES:
            topic_in(store).subscribe(name)

    told, first = set(), Topic.new_id()
    for scene in at_every_call(opened, url, way, prepare, lambda store, _: topic_in(store).push_many([1, 2], id=first)):
        store = scene.witness
        store.clock_offset += STALE / SECOND + 1
        store.recover(limit=0)
        app = Stanchion(store=store)
        got = {name: [job.payload for job in app.queue(f"sales.{name}").find()[::-1]] for name in NAMES}
        assert set(map(tuple, got.values())) in ({()}, {(1, 2)})
        assert scene.died or got["audit"] == [1, 2]
        events = {tuple(job.headers["x-event"] for job in app.queue(f"sales.{name}").find()) for name in NAMES}
        assert len(events) == 1
        told.add(len(got["audit"]))
        topic_in(store).push_many([1, 2], id=first)
        assert [app.queue(f"sales.{name}").size().total for name in NAMES] == [2, 2]
    assert told == ({2} if way == "lost" else {0, 2})
