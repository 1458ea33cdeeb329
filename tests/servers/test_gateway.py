"""What a store may build on, shown on the MongoDB server of the tests."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import DeleteOne, InsertOne, MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import (
    BulkWriteError,
    CollectionInvalid,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    WriteError,
)

Document = dict[str, Any]
Documents = Collection[Document]


@pytest.fixture
def jobs(mongo_url: str) -> Iterator[Documents]:
    """An empty collection."""
    client: MongoClient[Document]
    with MongoClient(mongo_url) as client:
        yield client.get_default_database()["jobs"]


def together(work: Callable[[int], None], threads: int = 8) -> None:
    """Run in threads; the first error of any is raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_documents_come_back_as_they_went(jobs: Documents) -> None:
    stored = {"_id": "a", "n": 2**40, "at": datetime(2026, 1, 2, 3, 4, 5, 678000), "none": None, "list": [{"b": b"\0"}]}
    jobs.insert_one(stored)
    assert jobs.find_one() == stored


def test_conditions(jobs: Documents) -> None:
    start = datetime(2026, 1, 1)
    jobs.insert_many({"_id": n, "at": start + timedelta(milliseconds=n), "q": "ab"[n % 2]} for n in range(10))
    jobs.update_one({"_id": 3}, {"$set": {"lock": None}})
    assert [each["_id"] for each in jobs.find({"at": {"$lte": start + timedelta(milliseconds=2)}}).sort("at", -1)] == [
        2,
        1,
        0,
    ]
    assert jobs.count_documents({"lock": None}) == 10
    assert jobs.count_documents({"lock": {"$exists": True}}) == 1
    assert jobs.count_documents({"$or": [{"q": "a"}, {"_id": {"$in": [1, 3]}}]}) == 7
    assert jobs.count_documents({"$expr": {"$gt": ["$_id", {"$add": [5, 2]}]}}) == 2


def test_a_sorted_result_comes_in_pages(jobs: Documents) -> None:
    jobs.insert_many({"_id": n, "v": -n} for n in range(500))
    cursors = [iter(jobs.find(batch_size=50).sort("v", 1)) for _ in range(3)]
    for expected in range(499, -1, -1):
        assert [next(cursor)["_id"] for cursor in cursors] == [expected] * 3


def test_an_update_by_pipeline_knows_the_time(jobs: Documents) -> None:
    jobs.insert_one({"_id": 1, "n": 1})
    changes = [{"$set": {"n": {"$cond": [{"$gte": ["$n", 1]}, "many", "few"]}, "at": "$$NOW"}}]
    changed = jobs.find_one_and_update({"_id": 1}, changes, return_document=True)
    assert changed is not None
    assert changed["n"] == "many"
    assert abs(changed["at"].replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(seconds=30)


def test_claims_race_and_take_each_document_once_in_order(jobs: Documents) -> None:
    jobs.create_index([("state", 1), ("priority", -1), ("_id", 1)])
    jobs.insert_many({"_id": n, "state": "ready", "priority": n % 3} for n in range(240))
    taken: list[list[Document]] = [[] for _ in range(8)]

    def claim(number: int) -> None:
        change = {"$set": {"state": "running"}}
        order = [("priority", -1), ("_id", 1)]
        taken[number].extend(iter(lambda: jobs.find_one_and_update({"state": "ready"}, change, sort=order), None))

    together(claim)
    assert sorted(job["_id"] for each in taken for job in each) == list(range(240))
    for each in taken:
        assert each == sorted(each, key=lambda job: (-job["priority"], job["_id"]))


def test_of_racing_compare_and_sets_one_wins(jobs: Documents) -> None:
    jobs.insert_many({"_id": n, "version": 0} for n in range(20))
    won: list[int] = []

    def step(_: int) -> None:
        change = {"$inc": {"version": 1}}
        won.extend(n for n in range(20) if jobs.update_one({"_id": n, "version": 0}, change).modified_count)

    together(step)
    assert sorted(won) == list(range(20))


def test_racing_inserts_of_a_unique_key_store_one(jobs: Documents) -> None:
    jobs.create_index("key", unique=True)
    stored: list[int] = []

    def insert(_: int) -> None:
        for key in range(10):
            try:
                jobs.insert_one({"key": key})
            except DuplicateKeyError:
                continue
            stored.append(key)

    together(insert)
    assert sorted(stored) == list(range(10))


def test_racing_batches_store_each_document_once(jobs: Documents) -> None:
    jobs.create_index("key", unique=True)
    stored: list[int] = []
    refusals: set[int] = set()

    def insert(number: int) -> None:
        order = random.Random(number).sample(range(50), 50)
        try:
            done = len(jobs.insert_many([{"_id": f"i{n}", "key": n} for n in order], ordered=False).inserted_ids)
        except BulkWriteError as error:
            refusals.update(each["code"] for each in error.details["writeErrors"])
            done = error.details["nInserted"]
        stored.append(done)

    together(insert)
    assert refusals == {11000}
    assert sum(stored) == jobs.count_documents({}) == 50


def test_updates_that_cross_do_not_fail(jobs: Documents) -> None:
    jobs.insert_many({"_id": n, "n": 0} for n in range(10))
    jobs.create_index("n")

    def update(number: int) -> None:
        for _ in range(10):
            order = range(10) if number % 2 else range(9, -1, -1)
            jobs.bulk_write([UpdateOne({"_id": n}, {"$inc": {"n": 1}}) for n in order])
            jobs.update_many({}, {"$inc": {"n": 1}})

    together(update, 4)
    assert {job["n"] for job in jobs.find()} == {80}


def test_indexes(jobs: Documents) -> None:
    jobs.create_index("key", unique=True, partialFilterExpression={"live": True})
    jobs.create_index("ends", expireAfterSeconds=60)
    jobs.insert_many([{"key": 1, "live": False}, {"key": 1, "live": False}, {"key": 1, "live": True}])
    for refused in (
        lambda: jobs.insert_one({"key": 1, "live": True}),
        lambda: jobs.update_one({"live": False}, {"$set": {"live": True}}),
        lambda: jobs.find_one_and_update({"live": False}, {"$set": {"live": True}}),
    ):
        with pytest.raises(DuplicateKeyError) as raised:
            refused()
        assert raised.value.code == 11000
    listed = {index["name"]: index for index in jobs.list_indexes()}
    assert listed["key_1"]["unique"]
    assert listed["key_1"]["partialFilterExpression"] == {"live": True}
    assert listed["ends_1"]["expireAfterSeconds"] == 60


def test_an_ordered_batch_stops_at_the_first_error(jobs: Documents) -> None:
    jobs.insert_one({"_id": 150})
    with pytest.raises(BulkWriteError) as raised:
        jobs.insert_many({"_id": n} for n in range(300))
    details = raised.value.details
    assert details["nInserted"] == 150
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(150, 11000)]
    assert jobs.count_documents({}) == 151


def test_an_unordered_batch_goes_on(jobs: Documents) -> None:
    jobs.insert_many([{"_id": 70}, {"_id": 140}])
    with pytest.raises(BulkWriteError) as raised:
        jobs.insert_many([{"_id": n} for n in range(200)], ordered=False)
    details = raised.value.details
    assert [(error["index"], error["code"]) for error in details["writeErrors"]] == [(70, 11000), (140, 11000)]
    assert jobs.count_documents({}) == 200


def test_a_mixed_batch_counts(jobs: Documents) -> None:
    done = jobs.bulk_write(
        [
            InsertOne({"_id": 1}),
            InsertOne({"_id": 2}),
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}),
            UpdateOne({"_id": 3}, {"$set": {"a": 1}}, upsert=True),
            DeleteOne({"_id": 2}),
            DeleteOne({"_id": 9}),
        ]
    )
    assert (done.inserted_count, done.matched_count, done.modified_count) == (2, 1, 1)
    assert (done.deleted_count, done.upserted_ids) == (1, {3: 3})


def test_bad_commands_are_refused(jobs: Documents) -> None:
    jobs.insert_one({"_id": 1})
    with pytest.raises(WriteError):
        jobs.update_one({"_id": 1}, {"$nonsense": {"a": 1}})
    with pytest.raises(OperationFailure, match="nonsense") as raised:
        jobs.database.command("nonsense")
    assert raised.value.code == 59


def test_explain_shows_a_plan(jobs: Documents) -> None:
    jobs.insert_one({"a": 1})
    assert "queryPlanner" in jobs.find({"a": 1}).explain()


def test_a_repeated_write_is_done_once(jobs: Documents) -> None:
    if mongo_is_standalone(jobs):
        pytest.skip("a standalone MongoDB server has no retryable writes")
    jobs.insert_one({"_id": 1, "n": 0})
    with jobs.database.client.start_session() as session:
        update = {
            "update": "jobs",
            "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}, {"q": {"_id": 1}, "u": {"$inc": {"n": 10}}}],
            "txnNumber": 7,
        }
        for _ in range(2):
            assert jobs.database.command(update, session=session)["nModified"] == 2
    assert jobs.find_one() == {"_id": 1, "n": 11}


def test_a_repeated_batch_is_stored_once(jobs: Documents) -> None:
    if mongo_is_standalone(jobs):
        pytest.skip("a standalone MongoDB server has no retryable writes")
    with jobs.database.client.start_session() as session:
        insert = {"insert": "jobs", "documents": [{"_id": n} for n in range(100)], "txnNumber": 3}
        for _ in range(2):
            answer = jobs.database.command(insert, session=session)
            assert (answer["n"], answer.get("writeErrors")) == (100, None)
    assert jobs.count_documents({}) == 100


def mongo_is_standalone(jobs: Documents) -> bool:
    hello = jobs.database.client.admin.command("hello")
    return "setName" not in hello and hello.get("msg") != "isdbgrid"


def test_hello_tells_the_time_and_buildinfo_the_release(jobs: Documents) -> None:
    now = jobs.database.client.admin.command("hello")["localTime"].replace(tzinfo=UTC)
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=30)
    assert jobs.database.client.server_info()["versionArray"][0] >= 5


def test_dropping_a_database_leaves_the_others(jobs: Documents) -> None:
    client = jobs.database.client
    jobs.insert_one({})
    other = client[f"{jobs.database.name}_b"]
    other["jobs"].insert_one({})
    client.drop_database(other)
    assert other["jobs"].count_documents({}) == 0
    assert jobs.count_documents({}) == 1


def test_a_command_ends_when_its_time_is_over(jobs: Documents) -> None:
    if mongo_is_standalone(jobs):
        pytest.skip("a standalone MongoDB server has no transactions")
    jobs.insert_one({"_id": 1})
    with jobs.database.client.start_session() as session, session.start_transaction():
        jobs.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        with pytest.raises(ExecutionTimeout):
            jobs.database.command(
                {"update": "jobs", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": 1}}}], "maxTimeMS": 100}
            )


def test_an_insert_while_a_collection_becomes_a_capped_one(jobs: Documents) -> None:
    news = jobs.database["news"]

    def work(number: int) -> None:
        if number:
            news.insert_one({"of": number})
        else:
            with suppress(CollectionInvalid):
                jobs.database.create_collection("news", capped=True, size=4096)

    for _ in range(20):
        news.drop()
        together(work, threads=3)
        news.insert_one({"of": "all"})
        assert "all" in [each["of"] for each in news.find()]
