"""Rows of a stream that become jobs with many rows each."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from stanchion import JobState, Stanchion
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.writing.stream_write import stream_writer
from tests.spark.streams.test_data_source import Query, Rows, number, schema_of
from tests.spark.streams.test_data_source import run as run


@pytest.fixture(params=["sqlite", "pg_url", pytest.param("mariadb_url", marks=pytest.mark.nightly)])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        one.queue("raw").push_many([{"n": n} for n in range(40)])
        yield one


only_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)


def texts(app: Stanchion, queue: str = "clean") -> list[str]:
    jobs = app.queue(queue).find(limit=1000)
    return sorted(item["text"] for job in jobs for item in (job.payload if job.items else [job.payload]))


def of(rows: Rows) -> Rows:
    return [{"job_id": row["id"], "text": f"row {number(row):02}"} for row in rows]


EACH = [f"row {n:02}" for n in range(40)]


def test_columns_are_the_fields_of_items(app: Stanchion) -> None:
    Query(app.url, of, "job_id", "text", rowsPerJob="8").run(limit=15)
    jobs = app.queue("clean").find(limit=1000)
    assert sorted(job.items or 1 for job in jobs) == [5, 5, 7, 7, 8, 8]  # two tasks for each batch
    assert texts(app) == EACH
    counts = app.queue("raw").counts()
    assert (counts.committed, app.queue("clean").counts().pushed) == (40, 40)
    assert jobs[0].headers["x-lineage"]["stream"] == "etl"


def test_failed_rows_are_left_out(app: Stanchion) -> None:
    def transform(rows: Rows) -> Rows:
        return [{**row, "error": "seven" if "7" in row["text"] else None} for row in of(rows)]

    Query(app.url, transform, "job_id", "text", "error", rowsPerJob="100").run()
    assert texts(app) == [text for text in EACH if "7" not in text]
    dead = app.queue("raw").find(state=JobState.DEAD)
    assert sorted(job.payload["n"] for job in dead) == [7, 17, 27, 37]


@only_sqlite
def test_rows_that_cannot_be_items_bury_their_jobs(app: Stanchion) -> None:
    app.queue("clean", schema="text string not null").push({"text": "first"})

    def transform(rows: Rows) -> Rows:
        return [{**row, "text": None} if "7" in row["text"] else row for row in of(rows)]

    Query(app.url, transform, "job_id", "text", rowsPerJob="100").run()
    assert texts(app) == ["first", *(text for text in EACH if "7" not in text)]
    dead = app.queue("raw").find(state=JobState.DEAD)
    assert sorted(job.payload["n"] for job in dead) == [7, 17, 27, 37]
    assert all("does not fit the schema" in job.errors[-1]["error"] for job in dead)


@only_sqlite
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["job_id", "payload"], {"mode": "move"}, "the option rowsPerJob is for mode=append"),
        (["text", "tenant"], {}, "the column tenant can be a field of the items or an option"),
        (["job_id", "error"], {}, "the rows have no columns for the fields of the items"),
        (["payload", "order_key"], {}, "the column order_key belongs to an item"),
    ],
)
def test_mistakes(app: Stanchion, columns: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        stream_writer(
            {"url": app.url, "stream": "etl", "to": "clean", "rowsPerJob": "9", **options}, schema_of(*columns), False
        )
