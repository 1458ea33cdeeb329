"""The MongoDB server of the tests passes for each kind, can be killed, and keeps what it has stored."""

import threading
from itertools import count
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, DuplicateKeyError

from tests.servers.documentdb.context import Like
from tests.servers.mongo import OwnMongoServer
from tests.worker.conftest import until

Document = dict[str, Any]
Documents = Collection[Document]


def own_jobs(server: OwnMongoServer, **options: Any) -> Documents:
    return MongoClient[Document](server.url(), **options)["test"]["jobs"]


@pytest.mark.parametrize(
    ("like", "topology"),
    [
        pytest.param("standalone", "Single", marks=pytest.mark.nightly),
        ("replica-set", "ReplicaSetWithPrimary"),
        pytest.param("mongos", "Sharded", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.nightly
def test_passes_for_each_kind_of_server(own_mongo_server: OwnMongoServer, like: Like, topology: str) -> None:
    client: MongoClient[Document]
    with MongoClient(own_mongo_server.url(like=like)) as client:
        client.admin.command("ping")
        assert client.topology_description.topology_type_name == topology


@pytest.mark.nightly
def test_what_was_stored_outlives_a_kill(own_mongo_server: OwnMongoServer) -> None:
    jobs = own_jobs(own_mongo_server, retryWrites=False, serverSelectionTimeoutMS=2000)
    jobs.create_index("key", unique=True)
    jobs.insert_many({"key": n} for n in range(100))
    for end in (own_mongo_server.stop, own_mongo_server.kill):
        end()
        with pytest.raises(AutoReconnect):
            jobs.database.client.admin.command("ping")
        own_mongo_server.start()
        assert jobs.count_documents({}) == 100
        with pytest.raises(DuplicateKeyError):
            jobs.insert_one({"key": 5})


@pytest.mark.nightly
def test_a_client_notices_that_the_database_has_gone(own_mongo_server: OwnMongoServer) -> None:
    jobs = own_jobs(own_mongo_server, retryWrites=False, serverSelectionTimeoutMS=2000)
    jobs.insert_one({"_id": 1})
    own_mongo_server.postgres.kill()

    def is_lost(number: int) -> bool:
        try:
            jobs.insert_one({"_id": number})
        except AutoReconnect:
            return True
        return False

    first = next(number for number in count(2) if is_lost(number))  # sessions end by themselves, soon after the kill
    assert is_lost(first)
    own_mongo_server.postgres.start()
    assert jobs.count_documents({}) == first - 1


@pytest.mark.nightly
def test_repeated_writes_are_done_once_over_kills(own_mongo_server: OwnMongoServer) -> None:
    jobs = own_jobs(own_mongo_server)
    jobs.insert_one({"_id": 1, "n": 0})
    stopped = threading.Event()
    done: list[int] = []
    unknown: list[AutoReconnect] = []

    def increment() -> int:
        return jobs.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count

    def keep_on() -> None:
        while not stopped.is_set():
            try:
                done.append(increment())
            except AutoReconnect as error:  # the driver repeats once only; on a slow machine two kills may meet it
                unknown.append(error)

    counting = threading.Thread(target=keep_on)
    counting.start()
    for kill in range(1, 4):
        until(lambda kill=kill: len(done) > 3 * kill + len(unknown))  # type: ignore[misc]
        own_mongo_server.kill()
        own_mongo_server.start()
    stopped.set()
    counting.join(60)
    found = jobs.find_one()
    assert found is not None
    assert set(done) == {1}
    assert len(done) <= found["n"] <= len(done) + len(unknown)
    assert len(unknown) < len(done)
