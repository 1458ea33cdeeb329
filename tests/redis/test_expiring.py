"""Of a queue that has expired no key is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.redis.store import RedisStore
from stanchion.waits.pop import pop
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.servers.redis_cluster import RedisCluster

DAY = 86_400.0


@pytest.fixture(params=["server", "cluster"])
def store(request: pytest.FixtureRequest, opened: Open) -> Iterator[RedisStore]:
    if request.param == "server":
        yield opened(request.getfixturevalue("redis_url"))
    else:
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        with cluster.keyspace() as url:
            yield opened(url)


def keys(store: RedisStore) -> set[str]:
    found = {key.decode() for key in store.server.client.scan_iter(match=store.server.keys.own("*"))}
    return {key for key in found if QUEUE in key}


@pytest.mark.parametrize("with_jobs", [False, True])
def test_no_key_is_left(store: RedisStore, with_jobs: bool) -> None:
    store.configure(
        QUEUE, {"expires": DAY, "expires_with_jobs": with_jobs, "lanes": 4, "uses_lanes": True, "max_rate": 1e6}
    )
    store.push([*new_jobs(4), NewJob("keyed", QUEUE, "{}", key="k", order_key="k", lane=2)])
    (first, second, *rest) = store.claim(Claim(QUEUE, 9, "t", lease=3600.0)).rows
    store.claim(Claim(QUEUE, 9, "u", rows=False))
    store.settle([Bury(first.lease, "no"), Rollback(second.lease, 0.0), *(Commit(row.lease) for row in rest)])
    store.settle([Commit(row.lease) for row in store.claim(Claim(QUEUE, 9, "v")).rows])
    if with_jobs:
        store.push([NewJob("left", QUEUE, "{}", delay=100 * DAY), NewJob("keyed too", QUEUE, "{}", order_key="k")])
    store.maintain()
    assert keys(store) != set()
    for _ in range(3):
        store.clock_offset += DAY + 61.0
        store.maintain()
    assert keys(store) == set()
    assert store.queues() == []


@pytest.mark.parametrize("with_jobs", [False, True])
def test_a_push_at_the_last_moment_keeps_it(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch, with_jobs: bool
) -> None:
    store.configure(QUEUE, {"expires": DAY, "expires_with_jobs": with_jobs})
    store.maintain()
    script = store._jobs.script

    def interrupted(name: str, *given: Any) -> Any:
        if name == "remove":
            monkeypatch.undo()
            store.push([NewJob("late", QUEUE, "{}")])
        return script(name, *given)

    monkeypatch.setattr(store._jobs, "script", interrupted)
    store.clock_offset = DAY
    store.maintain()
    assert store.fetch(["late"]).keys() == {"late"}
    assert [settings.expires for settings in store.queues()] == [DAY]


def test_an_idle_worker_does_not_bring_it_back(store: RedisStore) -> None:
    store.configure(QUEUE, {"expires": DAY})
    store.maintain()
    store.clock_offset = DAY
    store.maintain()
    assert store.claim(Claim(QUEUE, 9, "t", worker="w")).rows == []
    assert pop(store, Claim(QUEUE, 9, "")).rows == []
    store.maintain()
    assert keys(store) == set()


def test_one_who_notes_its_use_late_does_not_bring_it_back(store: RedisStore) -> None:
    store.configure(QUEUE, {"expires": DAY})
    (seen,) = store._queues.expiring()
    store.drop_queue(QUEUE)
    used = seen.to_record(store.now())
    assert used is not None
    store._queues.note_use(QUEUE, used)
    assert keys(store) == set()
