"""Items of jobs that carry many: one whose row has failed ends alone, in the step that publishes the others."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from stanchion import JobState, Stanchion
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id
from stanchion.core.spark_errors import LeasesLost
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.writing.stream_write import stream_writer
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Rollback
from stanchion.streams import SinkBatch
from tests.spark.streams.test_data_source import READ, Rows, number, schema_of
from tests.spark.streams.test_data_source import Query as QueryOfJobs
from tests.spark.streams.test_data_source import run as run
from tests.spark.streams.test_packed_rows import texts


class Query(QueryOfJobs):
    """A query that reads items with their places."""

    reads = schema_of(*READ.names, "item")


@pytest.fixture(params=["sqlite", "pg_url", pytest.param("mariadb_url", marks=pytest.mark.nightly)])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        yield one


only_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)


def push(app: Stanchion, *jobs: range, **fields: Any) -> list[str]:
    """Push jobs with so many items to `raw`."""
    codec = context_of(app).codec
    fields = {"max_attempts": 2, **fields}
    new = [NewJob(new_id(), "raw", stored(codec, Chunk.of([{"n": n} for n in one])), **fields) for one in jobs]
    app.store.push(new)
    return [job.id for job in new]


def state(app: Stanchion, job: str) -> JobState | None:
    found = app.get(job)
    return None if found is None else found.state


def failing(*wrong: int, **columns: Any) -> Callable[[Rows], Rows]:
    """Return the function of a query that can't process these numbers."""

    def transform(rows: Rows) -> Rows:
        return [
            {
                "job_id": row["id"],
                "item": row["item"],
                "text": f"row {number(row):02}",
                "error": f"no {number(row)}" if number(row) in wrong else None,
                **columns,
            }
            for row in rows
        ]

    return transform


COLUMNS = ("job_id", "item", "text", "error")


def items(app: Stanchion, **where: Any) -> list[int]:
    """Return the items of the jobs of `raw`."""
    jobs = app.queue("raw").find(limit=1000, **where)
    return sorted(one["n"] for job in jobs for one in (job.payload if job.items else [job.payload]))


def test_each_ends_alone(app: Stanchion) -> None:
    chunk, *_ = push(app, range(10), range(10, 11), range(11, 20))
    Query(app.url, failing(3, 10, 15, 16), *COLUMNS, rowsPerJob="100").run()
    good = [n for n in range(20) if n not in (3, 10, 15, 16)]
    assert texts(app) == [f"row {n:02}" for n in good]
    assert items(app, state=JobState.DEAD) == [3, 10, 15, 16]
    letters = {job.payload["n"]: job for job in app.queue("raw").find(state=JobState.DEAD)}
    assert {n: job.errors[-1]["error"] for n, job in letters.items()} == {n: f"no {n}" for n in letters}
    assert state(app, chunk) is JobState.DONE
    counts = app.queue("raw").counts()
    assert (counts.pushed, counts.committed, counts.buried) == (20, 16, 4)
    assert app.queue("raw").size().total == 0


def test_they_are_retried_and_are_dead_letters_in_the_end(app: Stanchion) -> None:
    push(app, range(10))
    columns = ("job_id", "item", "payload", "delay", "error")

    def run_once(*wrong: int) -> None:
        def transform(rows: Rows) -> Rows:
            return [
                {**row, "payload": json.dumps({"text": row["text"]}), "delay": 0.0} for row in failing(*wrong)(rows)
            ]

        Query(app.url, transform, *columns, rowsPerJob="100", errors="retry").run()

    run_once(3, 4)
    assert texts(app) == [f"row {n:02}" for n in range(10) if n not in (3, 4)]
    assert items(app, state=JobState.READY) == [3, 4]
    assert [job.attempts for job in app.queue("raw").find(state=JobState.READY)] == [1]
    run_once(3)
    assert items(app, state=JobState.DEAD) == [3]
    assert texts(app) == [f"row {n:02}" for n in range(10) if n != 3]
    counts = app.queue("raw").counts()
    assert (counts.pushed, counts.committed, counts.rolled_back, counts.buried) == (10, 9, 2, 1)


@only_sqlite
def test_a_chunk_all_of_whose_items_fail(app: Stanchion) -> None:
    (chunk,) = push(app, range(200))
    Query(app.url, failing(*range(200)), *COLUMNS, rowsPerJob="100").run()
    assert (texts(app), state(app, chunk)) == ([], JobState.DEAD)
    assert items(app, state=JobState.DEAD) == [*range(200)]


def test_rows_that_cannot_be_items(app: Stanchion) -> None:
    app.queue("clean", schema="text string not null").push({"text": "first"})
    push(app, range(10))

    def transform(rows: Rows) -> Rows:
        return [{**row, "text": None if row["text"] == "row 07" else row["text"]} for row in failing()(rows)]

    Query(app.url, transform, *COLUMNS, rowsPerJob="100").run()
    assert texts(app) == ["first", *(f"row {n:02}" for n in range(10) if n != 7)]
    (letter,) = app.queue("raw").find(state=JobState.DEAD)
    assert letter.payload == {"n": 7}
    assert "does not fit the schema" in letter.errors[-1]["error"]


def test_a_batch_that_runs_twice_has_its_effect_once(app: Stanchion) -> None:
    push(app, range(10), range(10, 20))
    query = Query(app.url, failing(3, 12), *COLUMNS, rowsPerJob="100")
    query.reader.prepareForTriggerAvailableNow()
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, query.reader.getDefaultReadLimit())
    query.batch(start, end)
    query.batch(start, end)
    assert texts(app) == [f"row {n:02}" for n in range(20) if n not in (3, 12)]
    assert items(app, state=JobState.DEAD) == [3, 12]


def test_a_lost_job_keeps_the_batch_from_ending(app: Stanchion) -> None:
    chunk, _ = push(app, range(10), range(10, 20))
    query = Query(app.url, failing(3, 12), *COLUMNS, rowsPerJob="100")
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, query.reader.getDefaultReadLimit())

    def lose() -> None:
        row = app.store.fetch([chunk])[chunk]
        app.store.settle([Rollback(row.lease, 0.0, refund=True)])

    with pytest.raises(LeasesLost):
        query.batch(start, end, lose)
    assert (texts(app), items(app, state=JobState.DEAD)) == ([], [])


@only_sqlite
@pytest.mark.parametrize(
    ("changed", "columns", "message"),
    [
        ({}, ("job_id", "text", "error"), "carries 10 items: name the failed ones in the column item"),
        ({"item": 10}, COLUMNS, "has no item 10, as it carries 10"),
    ],
)
def test_mistakes_in_rows(app: Stanchion, changed: dict[str, Any], columns: tuple[str, ...], message: str) -> None:
    push(app, range(10))
    with pytest.raises(InvalidInput, match=message):
        Query(app.url, failing(3, **changed), *columns, rowsPerJob="100").run()
    assert texts(app) == []


@only_sqlite
@pytest.mark.parametrize("mode", ["move", "finish"])
def test_the_row_of_an_item_is_not_the_content_of_its_job(app: Stanchion, mode: str) -> None:
    push(app, range(10))
    content = "payload" if mode == "move" else "result"

    def transform(rows: Rows) -> Rows:
        return [{"job_id": row["id"], content: row["payload"]} for row in rows[:1]]

    with pytest.raises(InvalidInput, match="its rows can't be its content"):
        Query(app.url, transform, "job_id", content, mode=mode).run()
    assert items(app, state=JobState.RUNNING) == [*range(10)]


@only_sqlite
def test_mistakes_in_columns(app: Stanchion) -> None:
    given = {"url": app.url, "stream": "etl", "to": "clean"}
    with pytest.raises(InvalidInput, match="the column item is for mode=append"):
        stream_writer({**given, "mode": "move"}, schema_of("job_id", "item"), False)
    with pytest.raises(InvalidInput, match="the column item must be of type int"):
        stream_writer(given, schema_of("job_id", "payload").add("item", "string"), False)


@only_sqlite
def test_item_is_a_field_of_rows_without_a_job(app: Stanchion) -> None:
    push(app, range(2))
    Query(app.url, lambda rows: [{"item": number(row)} for row in rows], "item", rowsPerJob="100").run()
    found = [one for job in app.queue("clean").find() for one in (job.payload if job.items else [job.payload])]
    assert sorted(one["item"] for one in found) == [0, 1]


def test_a_query_that_raises_loses_a_single_item(app: Stanchion) -> None:
    """Batches are halved by jobs, and the job that is left is cut, until one item is alone."""
    push(app, range(100), range(100, 200))

    def transform(rows: Rows) -> Rows:
        if any(number(row) == 77 for row in rows):
            raise ZeroDivisionError("division by zero")
        return failing()(rows)

    for _ in range(200):
        query = Query(app.url, transform, *COLUMNS, rowsPerJob="100")
        try:
            query.run()
        except ZeroDivisionError as error:
            SinkBatch.record_failure(app.store, "etl", ":7", f"ZeroDivisionError: {error}")
        if not app.queue("raw").size().total:
            break
    assert texts(app) == sorted(f"row {n:02}" for n in range(200) if n != 77)
    (letter,) = app.queue("raw").find(state=JobState.DEAD)
    assert letter.payload == {"n": 77}
    assert "ZeroDivisionError" in letter.errors[-1]["error"]
