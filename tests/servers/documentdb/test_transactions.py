"""Transactions, as MongoDB has them."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError, OperationFailure

from tests.servers.mongo import OwnMongoServer
from tests.servers.proxy import TcpProxy

Document = dict[str, Any]
Documents = Collection[Document]
Client = MongoClient[Document]


@pytest.fixture
def client(mongo_url: str) -> Iterator[Client]:
    """A client whose default database is empty, on a server with transactions."""
    client: Client
    with MongoClient(mongo_url) as client:
        hello = client.admin.command("hello")
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            pytest.skip("a standalone MongoDB server has no transactions")
        yield client


@pytest.fixture
def jobs(client: Client) -> Documents:
    """A collection with one document."""
    jobs = client.get_default_database()["jobs"]
    jobs.insert_one({"_id": 1, "n": 0})
    return jobs


def test_commits(client: Client, jobs: Documents) -> None:
    other = jobs.database["other"]
    with client.start_session() as session:
        with session.start_transaction():
            jobs.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            other.insert_one({"_id": 2}, session=session)
            assert jobs.find_one({"_id": 1}, session=session) == {"_id": 1, "n": 1}
            assert jobs.find_one({"_id": 1}) == {"_id": 1, "n": 0}
            assert other.count_documents({}) == 0
        session.commit_transaction()  # a client may ask twice
    assert jobs.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    assert other.count_documents({}) == 1


def test_aborts(client: Client, jobs: Documents) -> None:
    with client.start_session() as session:
        session.start_transaction()
        jobs.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        jobs.insert_many([{"_id": 2}, {"_id": 3}], session=session)
        session.abort_transaction()
    assert list(jobs.find()) == [{"_id": 1, "n": 0}]


def test_a_duplicate_key_ends_the_transaction(client: Client, jobs: Documents) -> None:
    with client.start_session() as session:
        session.start_transaction()
        jobs.insert_one({"_id": 2}, session=session)
        with pytest.raises(DuplicateKeyError):
            jobs.insert_one({"_id": 1}, session=session)
        with pytest.raises(OperationFailure) as raised:
            jobs.insert_one({"_id": 3}, session=session)
        assert raised.value.code == 251
        assert raised.value.has_error_label("TransientTransactionError")
    assert jobs.count_documents({}) == 1


def test_a_conflict_can_be_tried_again(client: Client, jobs: Documents) -> None:
    with client.start_session() as first, client.start_session() as second:
        first.start_transaction()
        second.start_transaction()
        jobs.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=first)
        assert jobs.find_one({"_id": 1}, session=second) == {"_id": 1, "n": 0}
        first.commit_transaction()
        with pytest.raises(OperationFailure) as raised:
            jobs.update_one({"_id": 1}, {"$inc": {"n": 10}}, session=second)
    assert raised.value.code == 112
    assert raised.value.has_error_label("TransientTransactionError")
    assert jobs.find_one() == {"_id": 1, "n": 1}


def test_racing_transactions_lose_no_update(client: Client, jobs: Documents) -> None:
    def count() -> None:
        with client.start_session() as session:
            for _ in range(5):
                session.with_transaction(increment)

    def increment(session: Any) -> None:
        found = jobs.find_one({"_id": 1}, session=session)
        assert found is not None
        jobs.update_one({"_id": 1}, {"$set": {"n": found["n"] + 1}}, session=session)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert jobs.find_one() == {"_id": 1, "n": 20}


@pytest.mark.nightly
def test_the_transaction_of_a_client_that_breaks_off_is_rolled_back(own_mongo_server: OwnMongoServer) -> None:
    client: Client
    other: Client
    with (
        TcpProxy("127.0.0.1", own_mongo_server.ports["mongos"]) as proxy,
        MongoClient(own_mongo_server.url()) as client,
    ):
        jobs: Documents = client["test"]["jobs"]
        jobs.insert_one({"_id": 1, "n": 0})
        with MongoClient(f"mongodb://127.0.0.1:{proxy.port}", serverSelectionTimeoutMS=100) as other:
            session = other.start_session()
            session.start_transaction()
            other["test"]["jobs"].update_one({"_id": 1}, {"$set": {"n": 9}}, session=session)
            proxy.drop()
            jobs.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert jobs.find_one() == {"_id": 1, "n": 1}


@pytest.mark.nightly
def test_a_standalone_server_has_none(own_mongo_server: OwnMongoServer) -> None:
    client: Client
    with MongoClient(own_mongo_server.url(like="standalone")) as client:
        jobs: Documents = client["test"]["jobs"]
        with pytest.raises(OperationFailure) as raised, client.start_session() as session, session.start_transaction():
            jobs.insert_one({"_id": 1}, session=session)
    assert raised.value.code == 20
