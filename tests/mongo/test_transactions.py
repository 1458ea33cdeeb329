"""Transactions of callers: on a replica set they are joined, elsewhere refused."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from stanchion.errors import CannotJoin
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, NewStore, claim, counts_of, new_job, sizes_of, transaction
from tests.servers.mongo import MongoServer, OwnMongoServer


@pytest.fixture
def store(new_store: NewStore) -> Iterator[Store]:
    store = new_store()
    yield store
    for settings in store.queues():
        store.drop_queue(settings.name)


@pytest.fixture
def client(database: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """The client of an application, with its own idea of options."""
    client: MongoClient[dict[str, Any]]
    with MongoClient(database, tz_aware=True, w=1) as client:
        yield client


def test_of_the_application_commits_its_effect_and_the_job(store: Store, client: MongoClient[dict[str, Any]]) -> None:
    effects = client.get_default_database()["effects"]
    store.push([new_job()])
    (row,) = claim(store)
    with client.start_session() as session:

        def work(session: ClientSession) -> None:
            effects.insert_one({"_id": row.id}, session=session)
            store.push([new_job(queue="next")], tx=session)
            assert store.settle([Commit(row.lease)], tx=session) == [JobState.DONE]
            assert store.fetch([row.id])[row.id].state == JobState.RUNNING  # to all others

        session.with_transaction(work)
    assert effects.find_one({"_id": row.id}) is not None
    assert store.fetch([row.id])[row.id].state == JobState.DONE
    assert (sizes_of(store, "next").ready, counts_of(store, "next").pushed) == (1, 1)


def test_a_conflict_is_told_as_the_driver_tells_it(
    store: Store, new_store: NewStore, client: MongoClient[dict[str, Any]]
) -> None:
    store.push([new_job()])
    (row,) = claim(store)
    commit = Commit(row.lease)
    with (  # noqa: PT012
        client.start_session() as session,
        pytest.raises(OperationFailure) as caught,
        session.start_transaction(),
    ):
        client.get_default_database()["effects"].insert_one({"_id": f"effect of {row.id}"}, session=session)
        assert new_store().settle([commit]) == [JobState.DONE]
        store.settle([commit], tx=session)
    assert caught.value.has_error_label("TransientTransactionError")
    assert client.get_default_database()["effects"].find_one({"_id": f"effect of {row.id}"}) is None


def test_a_session_without_a_transaction_is_refused(store: Store, client: MongoClient[dict[str, Any]]) -> None:
    with client.start_session() as session, pytest.raises(CannotJoin, match="start_transaction"):
        store.push([new_job()], tx=session)
    assert sizes_of(store, QUEUE).total == 0


def test_one_on_another_server_is_refused(store: Store, own_mongo_server: OwnMongoServer, database: str) -> None:
    url = own_mongo_server.url(database.rpartition("/")[2])
    client: MongoClient[dict[str, Any]]
    with closing(open_store(url)) as elsewhere, MongoClient(url) as client:

        def refused() -> None:
            with (
                client.start_session() as session,
                session.start_transaction(),
                pytest.raises(CannotJoin, match="another server"),
            ):
                store.push([new_job()], tx=session)

        refused()  # there is nothing of ours
        elsewhere.setup()
        with client.start_session() as session, session.start_transaction():
            elsewhere.push([new_job()], tx=session)
        assert sizes_of(elsewhere, QUEUE).total == 1
        refused()  # this client reaches a store, and not this one
    assert sizes_of(store, QUEUE).total == 0


def test_signals_go_out_with_the_commit(store: Store, new_store: NewStore) -> None:
    listener = new_store().listen([QUEUE])
    try:
        while listener.wait(0.1):
            pass
        with transaction(store) as session:
            store.push([new_job()], tx=session)
            assert not listener.wait(0.3)
        assert listener.wait(60)
    finally:
        listener.close()


def test_a_standalone_server_has_none(mongo_server: MongoServer, database: str) -> None:
    if not isinstance(mongo_server, OwnMongoServer):
        pytest.skip("the server is another's, and what it is: see what STANCHION_TEST_MONGODB names")
    url = mongo_server.url(database.rpartition("/")[2], like="standalone")
    with closing(open_store(url)) as store, pytest.raises(CannotJoin, match="standalone"), transaction(store):
        pass
