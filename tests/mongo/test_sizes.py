"""What is more than a document of MongoDB holds is refused, and no error shows what documents hold."""

import logging
from typing import Any

import pytest
from pymongo import UpdateMany
from pymongo.errors import BulkWriteError

from stanchion import Job, JobState, Stanchion, chain
from stanchion.core.ids import new_id
from stanchion.core.values.framing import chunk_with
from stanchion.errors import InvalidInput
from stanchion.stores.mongo.client.documents import MAX_CHUNK, MAX_CONTENT
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit, Move, Rollback
from stanchion_conformance.harness import QUEUE, NewStore, new_job, sizes_of

SECRET = "the-secret-of-Ada"
MEBIBYTE = 1 << 20
LARGE = (SECRET * MEBIBYTE)[: 9 * MEBIBYTE]
"""Two of it are more than a document holds."""


@pytest.fixture
def app(new_store: NewStore) -> Stanchion:
    """An app that lets large payloads through to the store."""
    return Stanchion(store=new_store(), max_payload=64 * MEBIBYTE)


def refused(caught: pytest.ExceptionInfo[Any], limit: int = 16 * MEBIBYTE) -> bool:
    """Tell whether an error names the limit, and not what was too large."""
    shown = "".join(str(one) for one in (caught.value, caught.value.__cause__ or ""))
    return f"{limit:,}" in shown and SECRET not in shown


def test_a_payload_is_refused_and_so_is_the_rest_of_its_batch(new_store: NewStore) -> None:
    store = new_store()
    for payload in ("ä" * (8 * MEBIBYTE), "x" * (17 * MEBIBYTE), SECRET * MEBIBYTE):
        with pytest.raises(InvalidInput) as caught:
            store.push([new_job(), new_job(payload)])
        assert refused(caught, MAX_CONTENT)
    assert sizes_of(store, QUEUE).total == 0


def test_a_chunk_is_refused_that_leaves_no_room_for_its_parts(new_store: NewStore) -> None:
    store = new_store()
    job = new_job("")._replace(payload=chunk_with(2, b"x" * MAX_CHUNK))
    for store_it in (lambda: store.push([job]), lambda: store.stage("write", "attempt", [new_job(), job])):
        with pytest.raises(InvalidInput) as caught:
            store_it()
        assert refused(caught, MAX_CHUNK)
    store.push([fits := new_job("")._replace(payload=chunk_with(2, b"x" * (MAX_CHUNK - 4)))])
    (row,) = store.claim(Claim(QUEUE, 1, new_id())).rows
    large = chunk_with(2, b"y" * (MAX_CHUNK - 4))
    store.settle([Move(row.lease, QUEUE, large, keep_entry=True)])
    (row,) = store.claim(Claim(QUEUE, 1, new_id())).rows
    store.settle([Rollback(row.lease, 0.0, "e" * 10_000, payload=fits.payload)])
    (row,) = store.claim(Claim(QUEUE, 1, new_id())).rows
    part = chunk_with(1, b"z" * (MAX_CHUNK // 2))
    parts = tuple(new_job(queue="parts", origin=row.id)._replace(payload=part) for _ in range(2))
    assert store.settle([Commit(row.lease, jobs=parts)]) == [JobState.DONE]
    assert sizes_of(store, "parts").total == 2


def test_the_largest_payload_leaves_room_for_its_errors(app: Stanchion) -> None:
    q = app.queue("room")
    q.push("x" * (MAX_CONTENT - 100), max_attempts=3)
    for _ in range(3):
        (job,) = q.reserve()
        job.rollback(0, error="e" * 10_000)
    assert isinstance(found := q.get(job.id), Job)
    assert found.state is JobState.DEAD


def test_an_outcome_is_refused_and_the_job_stays_reserved(app: Stanchion) -> None:
    q = app.queue("results")
    q.push(LARGE)
    (job,) = q.reserve()
    with pytest.raises(InvalidInput) as caught:
        job.commit(LARGE)
    assert refused(caught)
    with pytest.raises(InvalidInput) as caught:
        job.move("elsewhere", payload="x" * 16 * MEBIBYTE)
    assert refused(caught, MAX_CONTENT)
    job.bury("too large")
    assert isinstance(found := q.get(job.id), Job)
    assert found.state is JobState.DEAD


def test_a_result_or_a_group_too_large_ends_the_job_at_once(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    def echo(value: str) -> str:
        return value

    @app.task
    def spread(value: str) -> Any:
        return chain(echo.s(value), echo.si(value))

    with caplog.at_level(logging.DEBUG, "stanchion"):
        large = echo.enqueue(LARGE)
        many = spread.enqueue(LARGE)
        small = echo.enqueue("small")
        app.drain()
    assert small.result(timeout=60) == "small"
    for handle in (large, many):
        job = handle.job()
        assert (job.state, job.attempts) == (JobState.DEAD, 1)
        assert f"{16 * MEBIBYTE:,}" in job.errors[-1]["error"]
    assert SECRET not in caplog.text


def test_in_a_transaction(new_store: NewStore) -> None:
    store = new_store()
    assert isinstance(store, MongoStore)
    with pytest.raises(InvalidInput) as caught, store.transaction() as session:
        store.push([new_job("x" * 16 * MEBIBYTE)], session)
    assert refused(caught, MAX_CONTENT)


def test_an_error_of_the_server_shows_no_document(new_store: NewStore) -> None:
    store = new_store()
    assert isinstance(store, MongoStore)
    store.push([new_job()])
    wrong = UpdateMany({}, {"$set": {"result": SECRET}, "$inc": {"payload": 1}})
    with pytest.raises(BulkWriteError) as caught:
        store.server.call(lambda on, _again: on.jobs.bulk_write([wrong]))
    assert SECRET not in str(caught.value)
    assert caught.value.details["writeErrors"]
