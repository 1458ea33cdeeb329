"""A user with the rights that the page on Redis names, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from redis import Redis

from stanchion import Push, Stanchion, chain, group
from stanchion.core.ids import new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import pages
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.prepared import PlainColumns
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.redis.client.scripts import script_texts
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.waits.pop import pop
from stanchion_conformance.harness import due_of, find_jobs, rows_reserved, sizes_of
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.test_cluster import QUEUES, use_all
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster

ROOT = Path(__file__).parents[2]
STORE = ROOT / "src/stanchion/stores/redis"
RIGHTS = re.search(r"^ACL SETUSER app on >secret (.*?)^```", (ROOT / "docs/stores/redis.md").read_text(), re.S | re.M)
IN_CLUSTERS = "+cluster|slots +command +asking"
PARTS = {"prelude", "bucket", "plain_push"}
"""Of other scripts, or of a function; those that only a cluster runs are tried below."""
BY_THE_CLIENT = {"client|setname", "select", "time", "multi", "exec"}
ALL = Query("live", (Condition("queue", "=", QUEUE),), order="id")
NOT_NEEDED = {"info", "client", "client|setinfo", "function", "function|load"}


def rights() -> list[str]:
    assert RIGHTS is not None
    return RIGHTS[1].split()


def grant(admin: Redis, *more: str) -> None:
    admin.execute_command("ACL", "SETUSER", "app", "reset", "on", ">secret", *rights(), *more)
    admin.execute_command("ACL", "LOG", "RESET")


def denied(admin: Redis) -> set[str]:
    """Return the commands and keys that were denied but for those that need not be granted."""
    found: list[dict[str, Any]] = admin.acl_log()
    objects = {entry["object"] for entry in found if entry["username"] == "app"}
    return {one for one in objects if one.lower() not in NOT_NEEDED}


def use(app: Stanchion) -> None:
    """Do what programs and workers do."""
    app.semaphore("few", 2)

    @app.task(queue="work", limits=["few"], rate="1000/s")
    def double(n: int) -> int:
        return 2 * n

    @app.cron("* * * * *", missed="once")
    @app.task(queue="work")
    def total(numbers: Sequence[int] = ()) -> int:
        return sum(numbers)

    handle = group(double.s(n) for n in range(5)).then(total.s()).enqueue()
    events = app.event_group("order-17")
    events.add(double.s(1))
    events.close()
    double.using(order_key="one", delay=0.1).enqueue(3)
    double.enqueue(1).cancel()
    app.queue("laned", lanes=4).push_many([Push(n, tenant=f"t{n}", key=f"k{n}") for n in range(5)])
    app.run(until_finished=True)
    assert handle.result(timeout=60) == 20
    chain(double.s(1), double.s()).enqueue().cancel()


def use_store(store: RedisStore) -> None:
    """Call what Spark, the archive, copies and the upkeep call."""
    assert store.claim(Claim("laned", 5, "mine", rows=False)).reserved == 5
    assert len(rows_reserved(store, "laned", "mine")) == 5
    store.configure("passing", {"expires": 86_400.0})
    store.maintain()
    value = ValueChange("stream", "s", "t", 0)
    for write in ("published", "forgotten"):
        store.stage(write, "attempt", new_jobs(1))
        store.stage_prepared(
            write, "attempt", store.prepare(PlainColumns("plain", pa.array(new_ids(1)), pa.array(["{}"])))
        )
    assert store.publish(Publication("published", (("attempt", 2),), value))
    assert store.compare_and_set("stream", "s", None, 1)

    listener = store.listen([QUEUE])
    store.set_semaphore("shut", 0)
    store.push([job._replace(limits=limits_text(Limits(("shut",)))) for job in new_jobs(2)])
    assert len(store.claim(Claim(QUEUE, 2, "t", worker="w")).rows) == 1  # the one that was published
    (pushed, *_) = store.push(new_jobs(3))
    assert store.lane_depths(QUEUE, [UNLANED]) == {UNLANED: 3}
    assert len(store.partition(ALL, 2)) == 2
    assert due_of(store, QUEUE) is not None
    figures = store.stats([QUEUE], ["heads", "items"])[QUEUE]
    assert figures.heads
    assert figures.items.total == 6
    assert [worker.running for worker in store.workers(holders=True)] == [1]
    assert len(pop(store, Claim(QUEUE, 1, "")).rows) == 1
    store.cancel([pushed.id])
    rows = [row for page in pages(store, ALL) for row in page]
    assert any(store.delete([row.ref for row in rows]))
    assert all(store.adopt(rows))
    ended = [row.ref for row in find_jobs(store, queue=QUEUE) if row.finished_at]
    assert ended
    assert all(store.delete(ended))
    assert listener.wait(60)
    listener.close()
    store.push(new_jobs(1))
    assert store.claim(Claim(QUEUE, 1, "t3", worker="unknown")).rows
    store.clock_offset = 9 * 86_400.0
    store.beat([WorkerRow("other", "host", 1, (QUEUE,), 1, 10.0)])
    store.recover()
    store.maintain()
    store.drop_queue(QUEUE)


def test_the_page_names_what_is_sent_and_no_more() -> None:
    sent = set(BY_THE_CLIENT)
    for part in (STORE / "lua").glob("*.lua"):
        sent |= {name.lower() for name in re.findall(r"(?:call|each|several)\(\s*'([A-Z]+)'", part.read_text())}
    for part in STORE.rglob("*.py"):
        sent |= {name.lower() for name in re.findall(r"\(\s*\"([A-Z]{3,})\"", part.read_text())}
    named = {right[1:] for right in rights() if right.startswith("+")}
    assert sent - {"noperm", "readonly"} == named


def test_a_program_and_its_workers(any_server: RedisServer, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    run = set[str]()
    script = Server.script

    def recorded(server: Server, name: str, *rest: Any) -> Call:
        run.add(name)
        return script(server, name, *rest)

    monkeypatch.setattr(Server, "script", recorded)
    with any_server.client() as admin:
        grant(admin)
        store = opened(any_server.url().replace("redis://", "redis://app:secret@"))
        store.setup()
        use(Stanchion(store=store))
        use_all(store, "some", "other")
        use_store(store)
        assert {*script_texts()} - {*PARTS, "arrive", "count", "left"} == run
        assert denied(admin) == set()
        assert {key for key in admin.scan_iter() if not key.startswith("stanchion:")} == set()


def test_a_right_that_is_missing_is_told_of(own_redis_server: RedisServer, opened: Open) -> None:
    with own_redis_server.client() as admin:
        as_app = own_redis_server.url().replace("redis://", "redis://app:secret@")
        for missing in ("-hmget", "-evalsha"):
            grant(admin, missing)
            with pytest.raises(StoreUnavailable, match=r"the page on Redis names \(ACL SETUSER\)") as caught:
                opened(as_app).push(new_jobs(1))
            assert caught.value.lasting
        grant(admin)
        opened(as_app).push(new_jobs(1))
        with pytest.raises(StoreUnavailable, match=r"ACL SETUSER"):
            opened(f"{as_app}?prefix=other").push(new_jobs(1))


def test_all_but_what_is_dangerous_is_enough(own_redis_server: RedisServer, opened: Open) -> None:
    with own_redis_server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "app", "on", ">secret", "~stanchion:*", "+@all", "-@dangerous")
    store = opened(own_redis_server.url().replace("redis://", "redis://app:secret@"))
    store.setup()
    store.check()
    store.push(new_jobs(1))
    assert sizes_of(store, QUEUE).ready == 1


def test_in_a_cluster(redis_cluster: RedisCluster, opened: Open) -> None:
    admins = [node.client() for node in redis_cluster.nodes]
    try:
        for admin in admins:
            grant(admin, *IN_CLUSTERS.split())
        store = opened(redis_cluster.url().replace("://", "://app:secret@"))
        for queue, other in zip(QUEUES, QUEUES[1:] + QUEUES[:1], strict=True):
            use_all(store, queue, other)
        assert [denied(admin) for admin in admins] == 3 * [set()]
    finally:
        for admin in admins:
            admin.acl_deluser("app")
            admin.close()
        redis_cluster.flush()
