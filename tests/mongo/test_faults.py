"""What is said, and how soon, when the server can't be used; and that work goes on when it can again."""

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import NewStore, claim, new_job
from tests.servers.mongo import MongoServer, OwnMongoServer
from tests.servers.process import free_port
from tests.servers.proxy import TcpProxy


@pytest.mark.usefixtures("short_calls")
def test_no_server_is_told_in_one_line_within_the_deadline() -> None:
    address = f"mongodb://u:secret@127.0.0.1:{free_port()}/db"
    with closing(open_store(address)) as store, pytest.raises(StoreUnavailable) as caught:
        store.push([new_job()])
    said = str(caught.value)
    assert "secret" not in said
    assert "\n" not in said
    assert "Topology" not in said
    assert "Connection refused" in said
    assert "check hosts" in said


@pytest.mark.parametrize(("code", "word"), [(18, "password"), (13, "readWrite")])
def test_a_refusal_is_not_repeated(new_store: NewStore, monkeypatch: pytest.MonkeyPatch, code: int, word: str) -> None:
    calls = 0

    def refuse(*_args: Any, **_options: Any) -> Any:
        nonlocal calls
        calls += 1
        raise OperationFailure("refused", code)

    store = new_store()
    store.now()
    monkeypatch.setattr(Collection, "insert_many", refuse)
    with pytest.raises(StoreUnavailable, match=word):
        store.push([new_job()])
    assert calls == 1


def test_a_write_conflict_is(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [112, 112, 11602, 64]
    insert: Callable[..., Any] = Collection.insert_many

    def in_the_way(*args: Any, **options: Any) -> Any:
        if left:
            raise OperationFailure("in the way", left.pop(0))
        return insert(*args, **options)

    store = new_store()
    monkeypatch.setattr(Collection, "insert_many", in_the_way)
    job = new_job()
    assert store.push([job])[0].id == job.id
    assert left == []


@pytest.mark.usefixtures("short_calls")
def test_a_silent_network_ends_the_call(mongo_server: MongoServer, database: str) -> None:
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's: the network between can't be cut")
    with (
        TcpProxy("127.0.0.1", mongo_server.ports["standalone"]) as proxy,
        closing(open_store(f"mongodb://127.0.0.1:{proxy.port}/{database.rpartition('/')[2]}")) as store,
    ):
        store.push([new_job()])
        proxy.black_hole()
        with pytest.raises(StoreUnavailable):
            store.push([new_job()])
        proxy.pass_through()
        store.push([new_job()])


@pytest.mark.nightly
def test_a_reset_in_between_is_not_noticed(mongo_server: MongoServer, database: str) -> None:
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's: the network between can't be cut")
    with (
        TcpProxy("127.0.0.1", mongo_server.ports["standalone"]) as proxy,
        closing(open_store(f"mongodb://127.0.0.1:{proxy.port}/{database.rpartition('/')[2]}")) as store,
    ):
        for _ in range(20):
            job = new_job(queue="reset")
            store.push([job])
            proxy.reset()
            assert [row.id for row in claim(store, queue="reset")] == [job.id]
            proxy.reset()


def test_a_restart_of_the_server_is_waited_for(own_mongo_server: OwnMongoServer) -> None:
    with closing(open_store(own_mongo_server.url("restart"))) as store:
        store.setup()
        jobs = [new_job() for _ in range(3)]
        store.push(jobs)
        own_mongo_server.kill()
        own_mongo_server.start()
        assert [row.id for row in claim(store, 5)] == [job.id for job in jobs]


def test_a_closed_store_opens_anew(new_store: NewStore) -> None:
    store = new_store()
    store.close()
    job = new_job(queue="reopened")
    store.push([job])
    store.close()
    assert [row.id for row in claim(store, queue="reopened")] == [job.id]


def test_a_forked_child_has_connections_of_its_own(new_store: NewStore) -> None:
    queue = Stanchion(store=new_store()).queue("forked")
    queue.push("parent")
    child = os.fork()
    if child == 0:
        try:
            queue.push("child")
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(20):
        queue.push("parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    payloads = [job.payload for job in queue.reserve(100)]
    assert (payloads.count("parent"), payloads.count("child")) == (21, 1)
