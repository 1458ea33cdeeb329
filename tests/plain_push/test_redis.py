"""Pushes on Redis: clusters, rights, servers without functions, and texts that must not get into a job."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from tests.plain_push.ways import Refused, Way, refuses_keys_of_partitions
from tests.servers.redis import OtherServer, RedisServer
from tests.servers.redis_cluster import RedisCluster

on_redis = pytest.mark.parametrize("kind", ["redis"], indirect=True)

NO_JSON: list[str | bytes] = [
    *("", "{", "[1", "tru", "nan", "-inf", "Infinity", "0x10", "01", "+1", ".5", "1.", "'a'", '"a', "{} {}", "[1,]"),
    *('"tab\there"', '"line\nend"', '"\x1f"', '{"a": "\x1e"}', "[1,\x1f2]", '"\\x"', '"\\ud800"', "1 // one"),
    *(b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xf5\x80\x80\x80"', b'{"\xc3 a\xa9": 1}', b'"a\x00b"'),
]
JSON = [
    *("null", "-0", "1e400", "12345678901234567890", "1.5E-3", ' {"a" : [ ] } ', '"\\u001f\\ud83e\\udd86 \\" é 🦆"'),
    *('[{}, [], "true", "0x10", {"\\\\": "\\\\\\""}]', "\t[\n1,\r2]"),
]


@on_redis
def test_what_is_no_json_is_refused(app: Stanchion, store: Store, url: str) -> None:
    with closing(Redis.from_url(url)) as client:
        for text in NO_JSON:
            with pytest.raises(ResponseError, match="stanchion_push: give the payload as JSON"):
                client.fcall("stanchion_push", 1, "stanchion:{q}:", text)
            with pytest.raises(ResponseError, match="stanchion_push: headers must be"):
                client.fcall("stanchion_push", 1, "stanchion:{q}:", "1", "headers", text)
        for name in (b"\xff", b"\xed\xa0\x80", b"a\x00b", "a\x1fb"):
            with pytest.raises(ResponseError, match="key must be 1 to 200 printable"):
                client.fcall("stanchion_push", 1, "stanchion:{q}:", "1", "key", name)
        for key in ("", "q", "stanchion:q:", "stanchion:{q}:live", "stanchion:{}:"):
            with pytest.raises(ResponseError, match=r"stanchion_push: .* must be"):
                client.fcall("stanchion_push", 1, key, "1")
        with pytest.raises(ResponseError, match="has no value"):
            client.fcall("stanchion_push", 1, "stanchion:{q}:", "1", "priority")
        assert store.queues() == []
        ids = [client.fcall("stanchion_push", 1, "stanchion:{q}:", text).decode() for text in JSON]
    assert [store.fetch(ids)[one].payload for one in ids] == JSON
    assert len(app.queue("q").reserve(20)) == len(JSON)


@on_redis
@pytest.mark.usefixtures("store")
def test_pushes_of_one_transaction(app: Stanchion, url: str) -> None:
    with closing(Redis.from_url(url)) as client, client.pipeline(transaction=True) as pipeline:
        for n in range(300):
            pipeline.fcall("stanchion_push", 1, "stanchion:{q}:", str(n))
        assert len(set(pipeline.execute())) == 300
    assert [job.payload for job in app.queue("q").reserve(300)] == list(range(300))


@on_redis
def test_another_prefix(way: Way, url: str) -> None:
    with closing(open_store(f"{url}?prefix=shop:eu")) as store:
        (job,) = way.run([way.pushing("q}", "1", {}).replace("stanchion:{", "shop:eu:{")])
        assert [settings.name for settings in store.queues()] == ["q}"]
        assert store.fetch([job])[job].queue == "q}"


def rights() -> list[str]:
    """Return the rights that the page names."""
    page = (Path(__file__).parents[2] / "docs/sql.md").read_text()
    found = re.search(r"needs these rights, on the keys `~stanchion:\*`: `([^`]*)`", page)
    assert found is not None
    return found[1].split()


@pytest.fixture
def site(way: Way, app: Stanchion, url: str, redis_server: RedisServer) -> Iterator[Callable[[Sequence[str]], Way]]:
    """A function that gives a program exactly these rights, in a store with all that a push may look at."""
    app.store.set_semaphore("smtp", 1)
    app.queue("gone").push(1)
    for job in app.queue("gone").reserve():
        job.move("elsewhere")  # its id is remembered
    with redis_server.client() as admin:

        def granted(commands: Sequence[str]) -> Way:
            user = ("ACL", "SETUSER", "site", "reset", "on", ">secret", "resetkeys", "~stanchion:*", "-@all")
            admin.execute_command(*user, *commands)
            return type(way)(url.replace("redis://", "redis://site:secret@"))

        try:
            yield granted
        finally:
            admin.execute_command("ACL", "DELUSER", "site")


def push_in_each_way(site: Way, queue: str) -> None:
    first = site.push(queue, "1", key="k", order_key="o", limits=["smtp"], tenant="t")
    assert site.push(queue, "1", key="k") == first
    site.push("gone", "1", headers={"a": "b"}, delay=5)


@on_redis
def test_the_rights_that_the_page_names_are_enough(site: Callable[[Sequence[str]], Way]) -> None:
    program = site(rights())
    push_in_each_way(program, "q")
    for refused in ("HVALS stanchion:{q}:body", "SET stanchion:{q}:live 1", "DEL stanchion:{q}:live"):
        with pytest.raises(Refused, match="NOPERM"):
            program.run([refused])


@on_redis
@pytest.mark.parametrize("right", rights())
def test_it_needs_each_right_that_the_page_names(site: Callable[[Sequence[str]], Way], right: str) -> None:
    program = site([one for one in rights() if one != right])
    with pytest.raises(Refused):
        push_in_each_way(program, "q")


@pytest.mark.slow
def test_a_cluster(redis_cluster: RedisCluster) -> None:
    with redis_cluster.keyspace() as url, closing(open_store(url)) as store:
        store.setup()
        queues = [f"queue {n}" for n in range(20)]
        client = store.server.client  # type: ignore[attr-defined]
        said = set[str]()
        for queue in queues:
            key = store.server.keys.queue(queue)  # type: ignore[attr-defined]
            push = ("FCALL", "stanchion_push", 2, key, f"{key}moving", "1", "order_key", "o")
            try:
                client.execute_command(*push)
            except ResponseError as error:
                said.add(str(error))
                store.configure(queue, {})
                client.execute_command(*push)
            with pytest.raises(ResponseError, match="semaphore"):
                client.execute_command(*push, "limits", '["unknown"]')
        assert said
        assert all("in a cluster, make the queue first" in each for each in said)
        stats = store.stats(queues, ["states", "totals"])
        assert [stats[queue].states.ready for queue in queues] == [1] * 20
        assert [settings.name for settings in store.queues()] == sorted(queues)


@pytest.mark.slow
@pytest.mark.parametrize("other", get_args(OtherServer))
def test_other_servers(other: OtherServer) -> None:
    with RedisServer(other=other) as server, closing(open_store(server.url())) as store, server.client() as client:
        store.setup()
        if other == "redis-6.2":
            with pytest.raises(ResponseError, match="unknown command"):
                client.execute_command("FCALL", "stanchion_push", 1, "stanchion:{q}:", "1")
        else:
            moment = time.time() + 3600
            client.fcall("stanchion_push", 1, "stanchion:{q}:", "1", "run_at", str(moment))
            assert store.stats(["q"], ["states"])["q"].states.scheduled == 1


@on_redis
def test_it_refuses_keys_of_a_queue_with_partitions(way: Way, app: Stanchion) -> None:
    refuses_keys_of_partitions(way, app)
