"""The keys of an idle queue that expires have a TTL, which ends before anything else can be stored beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob, Redriven
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move
from stanchion.stores.records.prepared import PlainColumns
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.redis.client import schema
from stanchion.stores.redis.client.server import Server
from stanchion.stores.redis.store import RedisStore
from stanchion.waits.pop import pop
from stanchion_conformance.harness import find_jobs
from tests.redis.conftest import QUEUE, Open, new_jobs

HOUR = 3600.0
SOON = 0.05
MISSING, WITHOUT_TTL = -2, -1
PUSH_COMMANDS = 14
"""With the call of the script and the commands in it, as before keys had a TTL."""


@pytest.fixture(params=["server", pytest.param("cluster", marks=pytest.mark.nightly)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "server":
        yield f"{request.getfixturevalue('redis_server').url()}?prefix={new_id()}"
    else:
        with request.getfixturevalue("redis_cluster").keyspace() as url:
            yield url


@pytest.fixture
def store(url: str, opened: Open) -> RedisStore:
    store = opened(url)
    store.setup()
    return store


def ends(store: RedisStore, queue: str = QUEUE) -> set[int]:
    """Return when the keys of a queue go, in milliseconds of the server; -1 stands for never."""
    keys = list(store.server.client.scan_iter(match=store.server.keys.queue(queue) + "*"))
    return {int(store.server.client.execute_command("PEXPIRETIME", key)) for key in keys} - {MISSING}


def wait_until(condition: Callable[[], bool], pause: float = 0.01) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause)


def lapsing(store: RedisStore, queue: str = QUEUE, seconds: float = HOUR) -> None:
    """Make a queue with finished jobs and let upkeep find it idle."""
    store.configure(queue, {"expires": seconds, "max_rate": 1e6})
    store.push([NewJob(job, queue, "{}", key=job, order_key=job) for job in new_ids(3)])
    first, second, third = store.claim(Claim(queue, 3, "t", lease=HOUR)).rows
    store.settle([Bury(first.lease, "no"), Abandon(second.lease), Commit(third.lease)])
    store.maintain()


def test_all_keys_go_at_one_moment(store: RedisStore) -> None:
    before = time.time()
    lapsing(store)
    (end,) = ends(store)
    assert end >= (before + HOUR) * 1000
    store.maintain()
    assert ends(store) == {end}, "a look is no use"
    assert store.claim(Claim(QUEUE, 9, "w", worker="w")).rows == []
    assert store.claim(Claim(QUEUE, 9, "l")).rows == []
    assert pop(store, Claim(QUEUE, 9, "")).rows == []
    assert ends(store) == {end}, "a claim of nothing is no use"


def test_a_second_process_leaves_the_ttl(store: RedisStore) -> None:
    lapsing(store)
    (end,) = ends(store)
    store._queues._lapse([QUEUE])  # it has read the settings before the first one wrote them
    assert ends(store) == {end}


def push(store: RedisStore) -> None:
    store.push(new_jobs(2))


def push_keyed(store: RedisStore) -> None:
    store.push([NewJob(new_id(), QUEUE, "{}", key="k", order_key="k", lane=2, delay=HOUR)])


def push_prepared(store: RedisStore) -> None:
    (write,) = new_ids(1)
    rows = store.prepare(PlainColumns(QUEUE, pa.array(new_ids(1)), pa.array(["{}"])))
    store.stage_prepared(write, "attempt", rows)
    assert store.publish(Publication(write, (("attempt", 1),), ValueChange("stream", "s", "t", 0)))


def publish(store: RedisStore) -> None:
    store.stage("write", "attempt", new_jobs(1))
    assert store.publish(Publication("write", (("attempt", 1),), ValueChange("stream", "s", "t", 0)))


def move(store: RedisStore) -> None:
    store.push([NewJob("moved", "other", "{}")])
    (row,) = store.claim(Claim("other", 1, "m")).rows
    store.settle([Move(row.lease, QUEUE)])


def bury(store: RedisStore) -> None:
    store.configure("other", {"dead_letter": QUEUE})
    store.push([NewJob("buried", "other", "{}")])
    (row,) = store.claim(Claim("other", 1, "m")).rows
    store.settle([Bury(row.lease, "no")])


def retry(store: RedisStore) -> None:
    assert Redriven.READY in store.retry([row.id for row in find_jobs(store, queue=QUEUE)])


def adopt(store: RedisStore) -> None:
    store.push([NewJob("adopted", "other", "{}")])
    (row,) = find_jobs(store, queue="other")
    store.drop_queue("other")
    assert all(store.adopt([row._replace(queue=QUEUE)]))


def push_elsewhere(store: RedisStore) -> None:
    """Push as programs without the package do."""
    store.server.client.execute_command("FCALL", "stanchion_push", 1, store.server.keys.queue(QUEUE), "{}")


USES = [push, push_keyed, push_prepared, publish, move, bury, retry, adopt, push_elsewhere]


@pytest.mark.parametrize("use", USES)
def test_what_comes_to_it_ends_the_ttl(store: RedisStore, use: Callable[[RedisStore], None]) -> None:
    lapsing(store)
    assert len(ends(store)) == 1
    assert WITHOUT_TTL not in ends(store)
    use(store)
    assert ends(store) == {WITHOUT_TTL}
    store.maintain()
    assert ends(store) == {WITHOUT_TTL}, "it has live jobs"
    assert any(row.finished_at is None for row in find_jobs(store, queue=QUEUE))


@pytest.mark.parametrize("changes", [{"paused": True}, {"expires": None}, {"expires": 2 * HOUR}, {}])
def test_a_change_of_settings_begins_the_time_again(store: RedisStore, changes: dict[str, Any]) -> None:
    lapsing(store)
    (before,) = ends(store)
    store.configure(QUEUE, changes)
    assert ends(store) == {WITHOUT_TTL}
    store.maintain()
    (after,) = ends(store)
    assert after == WITHOUT_TTL if "expires" in changes and changes["expires"] is None else after >= before


def test_it_begins_again_after_each_use(store: RedisStore) -> None:
    for _ in range(2):
        lapsing(store)
        assert WITHOUT_TTL not in ends(store)
    store.push(new_jobs(1))
    (row,) = store.claim(Claim(QUEUE, 1, "t", worker="w")).rows
    store.maintain()
    assert ends(store) == {WITHOUT_TTL}, "a job runs"
    store.settle([Commit(row.lease)])
    assert ends(store) == {WITHOUT_TTL}
    store.maintain()
    assert WITHOUT_TTL not in ends(store)


def test_the_keys_go_without_a_process_and_leave_no_ghost(store: RedisStore, url: str, opened: Open) -> None:
    pusher, other = opened(url), opened(url)
    pusher.push(new_jobs(1))
    pusher.settle([Commit(row.lease) for row in pusher.claim(Claim(QUEUE, 1, "t")).rows])
    lapsing(store, seconds=SOON)
    wait_until(lambda: ends(store) == set())
    assert other.queues() == []
    assert other.queues([QUEUE]) == []
    assert find_jobs(other) == []
    other.maintain()
    assert not other.server.client.sismember(other.server.keys.own("queues"), QUEUE)
    pusher.push(new_jobs(1))  # it knew the queue
    assert [settings.name for settings in other.queues()] == [QUEUE]
    assert ends(store) == {WITHOUT_TTL}


def test_a_push_at_the_last_moment_is_kept(store: RedisStore) -> None:
    """Each comes just before the keys go, or just after."""
    store.configure(QUEUE, {"expires": SOON})
    settings = store.server.keys.queue(QUEUE) + "settings"
    for _ in range(10):
        store._queues._lapse([QUEUE])
        assert WITHOUT_TTL not in ends(store)
        wait_until(lambda: store.server.client.pttl(settings) < 1, pause=0.0)
        (job,) = store.push(new_jobs(1))
        assert store.fetch([job.id]).keys() == {job.id}
        assert ends(store) == {WITHOUT_TTL}
        assert all(store.delete([row.ref for row in find_jobs(store, queue=QUEUE)]))
        store.configure(QUEUE, {"expires": SOON})


def test_no_key_goes_where_the_server_chooses_some_or_workers_are_older(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = store.server.infos
    with monkeypatch.context() as patch:
        patch.setattr(
            Server, "infos", lambda _self, part: [{**one, "maxmemory_policy": "volatile-lru"} for one in infos(part)]
        )
        lapsing(store)
        assert ends(store) == {WITHOUT_TTL}
    version = store.server.keys.own("version")
    store.server.client.set(version, schema.VERSION - 1)
    store.maintain()
    assert ends(store) == {WITHOUT_TTL}
    assert store.setup() == [f"SET {version} {schema.VERSION}"]
    store.maintain()
    assert WITHOUT_TTL not in ends(store)


def test_a_push_elsewhere_costs_no_further_command(one: RedisStore) -> None:
    """Neither before the queue has lapsed for the first time nor after."""

    def costs() -> int:
        client = one.server.client
        one.push(new_jobs(1))
        before = commands(client)
        one.push(new_jobs(1))
        return commands(client) - before

    one.configure(QUEUE, {})
    plain = costs()
    one.drop_queue(QUEUE)
    lapsing(one)
    assert costs() == plain == PUSH_COMMANDS


def commands(client: Any) -> int:
    return sum(int(one["calls"]) for name, one in client.info("commandstats").items() if name != "cmdstat_info")
