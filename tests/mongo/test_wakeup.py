"""Signals through lost connections, killed cursors and dropped collections; and without any."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from stanchion.stores.protocol import Listener
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, NewStore, claim, new_job
from tests.servers.mongo import MongoServer, OwnMongoServer
from tests.servers.proxy import TcpProxy

SIGNALS = "stanchion_signals"
SOON = 60.0


@pytest.fixture
def collections(database: str) -> Iterator[Database[dict[str, Any]]]:
    client: MongoClient[dict[str, Any]]
    with MongoClient(database) as client:
        yield client.get_default_database()


def rest(listener: Listener) -> None:
    """Wait until nothing comes any more."""
    while listener.wait(0.2):
        pass


def heard(listener: Listener, new_store: NewStore) -> bool:
    """Push until the listener hears of it."""
    pusher, deadline = new_store(), time.monotonic() + SOON
    while time.monotonic() < deadline:
        pusher.push([new_job()])
        if listener.wait(0.5):
            return True
    return False


def test_a_new_listener_hears_no_old_news(new_store: NewStore) -> None:
    pusher = new_store()
    for _ in range(30):
        pusher.push([new_job()])
        time.sleep(0.01)
    with closing(new_store().listen([QUEUE])) as listener:
        assert not listener.wait(0.5)
        assert heard(listener, new_store)


def test_signals_for_other_queues_wake_nobody(new_store: NewStore) -> None:
    with closing(new_store().listen([QUEUE])) as listener:
        rest(listener)
        new_store().push([new_job(queue="elsewhere")])
        assert not listener.wait(0.5)


@pytest.mark.parametrize("harm", ["dropped", "overrun", "made again without a cap"])
def test_a_collection_that_was(harm: str, new_store: NewStore, collections: Database[dict[str, Any]]) -> None:
    with closing(new_store().listen([QUEUE])) as listener:
        rest(listener)
        match harm:
            case "dropped":
                collections.drop_collection(SIGNALS)
            case "overrun":
                collections[SIGNALS].insert_many([{"queues": ["elsewhere"]} for _ in range(3000)])
            case _:
                collections.drop_collection(SIGNALS)
                collections[SIGNALS].insert_one({"queues": []})
        assert heard(listener, new_store)
        deadline = time.monotonic() + SOON
        while not collections[SIGNALS].options().get("capped") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert collections[SIGNALS].options().get("capped")


def test_a_lost_connection(mongo_server: MongoServer, new_store: NewStore, database: str) -> None:
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's: the network between can't be cut")
    with (
        TcpProxy("127.0.0.1", mongo_server.ports["standalone"]) as proxy,
        closing(open_store(f"mongodb://127.0.0.1:{proxy.port}/{database.rpartition('/')[2]}")) as store,
        closing(store.listen([QUEUE])) as listener,
    ):
        rest(listener)
        proxy.reset()
        assert heard(listener, new_store)
        rest(listener)
        proxy.drop()
        new_store().push([new_job()])
        time.sleep(0.5)
        proxy.pass_through()
        assert listener.wait(SOON), "what was pushed meanwhile gave no sign"


def test_without_capped_collections_polling_does_it_all(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch, collections: Database[dict[str, Any]]
) -> None:
    monkeypatch.setattr("stanchion.stores.mongo.wakeup.make_signals", lambda _place: False)
    store = new_store()
    with closing(store.listen([QUEUE])) as listener:
        store.push([new_job(queue="polled")])
        time.sleep(0.3)
        assert collections[SIGNALS].count_documents({"queues": "polled"}) == 0
        assert not listener.wait(0.1)
        store.push([new_job()])
        assert listener.wait(SOON)  # within the process
    assert len(claim(new_store(), queue="polled")) == 1
