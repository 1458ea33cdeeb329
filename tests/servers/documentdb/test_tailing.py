"""Capped collections and the cursors that follow them, as MongoDB has them."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import CursorType, MongoClient
from pymongo.collection import Collection
from pymongo.cursor import Cursor
from pymongo.errors import OperationFailure

from tests.servers.mongo import OwnMongoServer

Document = dict[str, Any]
Documents = Collection[Document]


@pytest.fixture
def client(mongo_url: str) -> Iterator[MongoClient[Document]]:
    """A client whose default database is empty."""
    client: MongoClient[Document]
    with MongoClient(mongo_url) as client:
        yield client


@pytest.fixture
def signs(client: MongoClient[Document]) -> Documents:
    """An empty capped collection."""
    return client.get_default_database().create_collection("signs", capped=True, size=100_000, max=5)


def follow(signs: Documents, condition: Document | None = None, milliseconds: int = 300) -> Cursor[Document]:
    cursor = signs.find(condition, cursor_type=CursorType.TAILABLE_AWAIT)
    return cursor.max_await_time_ms(milliseconds)


def ids(cursor: Cursor[Document]) -> list[Any]:
    """The ids of the documents that are there, or come in time."""
    return [each["_id"] for each in cursor]


def test_keeps_the_last_documents_in_order(signs: Documents) -> None:
    signs.insert_many({"_id": n} for n in (7, 3, 9, 1, 8, 2, 6))
    assert list(signs.find()) == [{"_id": n} for n in (9, 1, 8, 2, 6)]
    assert [each["_id"] for each in signs.find().sort("$natural", -1)] == [6, 2, 8, 1, 9]
    assert list(signs.aggregate([{"$sort": {"_id": 1}}, {"$limit": 1}])) == [{"_id": 1}]


def test_keeps_within_its_size(client: MongoClient[Document]) -> None:
    small = client.get_default_database().create_collection("small", capped=True, size=4096)
    small.insert_many({"_id": n, "text": "x" * 500} for n in range(20))
    kept = [each["_id"] for each in small.find()]
    assert 5 <= len(kept) <= 8
    assert kept == list(range(20 - len(kept), 20))


def test_tells_that_it_is_capped(signs: Documents) -> None:
    options = signs.options()
    assert (options["capped"], options["max"]) == (True, 5)
    with pytest.raises(OperationFailure) as raised:
        signs.database.command("create", "signs", capped=True, size=4096)
    assert raised.value.code == 48


def test_a_cursor_on_an_empty_collection_is_dead(signs: Documents) -> None:
    cursor = follow(signs)
    assert ids(cursor) == []
    assert not cursor.alive
    assert cursor.cursor_id == 0


def test_a_cursor_on_an_ordinary_collection_is_refused(client: MongoClient[Document]) -> None:
    ordinary = client.get_default_database()["ordinary"]
    ordinary.insert_one({"_id": 1})
    with pytest.raises(OperationFailure, match="capped"):
        ids(follow(ordinary))


def test_waits_and_returns_when_the_time_is_over(signs: Documents) -> None:
    signs.insert_one({"_id": 1})
    cursor = follow(signs)
    assert next(cursor)["_id"] == 1
    before = time.monotonic()
    assert ids(cursor) == []
    assert 0.25 < time.monotonic() - before < 5
    assert cursor.alive


def test_another_client_wakes_a_waiting_cursor(signs: Documents, mongo_url: str) -> None:
    signs.insert_one({"_id": 1, "queue": "a"})
    cursor = follow(signs, {"queue": "a"}, milliseconds=20_000)
    assert next(cursor)["_id"] == 1

    def insert() -> None:
        other: MongoClient[Document]
        with MongoClient(mongo_url) as other:
            theirs: Documents = other.get_default_database()["signs"]
            theirs.insert_many([{"_id": 2, "queue": "b"}, {"_id": 3, "queue": "a"}])

    later = threading.Timer(0.2, insert)
    later.start()
    before = time.monotonic()
    assert next(cursor) == {"_id": 3, "queue": "a"}
    assert time.monotonic() - before < 10
    later.join()


def test_several_cursors_see_every_document(client: MongoClient[Document]) -> None:
    signs = client.get_default_database().create_collection("all", capped=True, size=100_000, max=100)
    signs.insert_one({"_id": 0})
    cursors = [follow(signs, milliseconds=1000) for _ in range(3)]
    seen = [[next(cursor)["_id"]] for cursor in cursors]

    def read(cursor: Cursor[Document], into: list[int]) -> None:
        while len(into) < 40 and cursor.alive:
            into.extend(ids(cursor) if len(into) == 39 else [next(cursor)["_id"]])

    threads = [threading.Thread(target=read, args=each) for each in zip(cursors, seen, strict=True)]
    for thread in threads:
        thread.start()
    for n in range(1, 40):
        signs.insert_one({"_id": n})
        time.sleep(0.01)
    for cursor, thread in zip(cursors, threads, strict=True):
        thread.join(300)
        cursor.close()
    assert seen == [list(range(40))] * 3


def test_a_cursor_that_was_overtaken_dies(signs: Documents) -> None:
    signs.insert_one({"_id": 0})
    cursor = follow(signs)
    assert next(cursor)["_id"] == 0
    signs.insert_many({"_id": n} for n in range(1, 8))
    assert ids(cursor) == []
    assert not cursor.alive


def test_dropping_the_collection_ends_a_waiting_cursor(signs: Documents) -> None:
    signs.insert_one({"_id": 1})
    cursor = follow(signs, milliseconds=20_000)
    assert next(cursor)["_id"] == 1
    later = threading.Timer(0.2, signs.drop)
    later.start()
    assert ids(cursor) == []
    assert not cursor.alive
    later.join()


@pytest.mark.parametrize("waits", [True, False])
def test_killing_a_cursor_ends_it(signs: Documents, waits: bool) -> None:
    signs.insert_one({"_id": 1})
    cursor = follow(signs, milliseconds=20_000)
    assert next(cursor)["_id"] == 1
    number = cursor.cursor_id
    later = threading.Timer(
        0.2 if waits else 0, signs.database.command, args=("killCursors", "signs"), kwargs={"cursors": [number]}
    )
    later.start()
    if not waits:
        later.join()
    assert ids(cursor) == []
    assert not cursor.alive
    later.join()


def test_a_transaction_may_not_write_to_it(client: MongoClient[Document], signs: Documents) -> None:
    hello = client.admin.command("hello")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        pytest.skip("a standalone MongoDB server has no transactions")
    with pytest.raises(OperationFailure) as raised, client.start_session() as session, session.start_transaction():
        signs.insert_one({"_id": 1}, session=session)
    assert raised.value.code == 263


@pytest.mark.nightly
def test_outlives_a_kill(own_mongo_server: OwnMongoServer) -> None:
    client: MongoClient[Document]
    with MongoClient(own_mongo_server.url()) as client:
        signs: Documents = client["test"].create_collection("signs", capped=True, size=100_000, max=3)
        signs.insert_many({"_id": n} for n in range(3))
        own_mongo_server.kill()
        own_mongo_server.start()
        signs.insert_one({"_id": 3})
        assert [each["_id"] for each in signs.find()] == [1, 2, 3]
        cursor = follow(signs)
        assert ids(cursor) == [1, 2, 3]
        signs.insert_one({"_id": 4})
        assert ids(cursor) == [4]
