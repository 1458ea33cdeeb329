"""The outcome of a chunk at a Spark station, by the rows of its items: without Spark."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from stanchion import Retry, Stanchion, Table
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations.batches.ends import ItemEnds, by_job
from stanchion.spark.stations.items import ReservedItems
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit, Move

ROWS = pa.schema([("job", "string"), ("place", "int32"), ("to", "string"), ("payload", "string"), ("error", "string")])


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}", max_payload=2000)) as one:
        one.setup()
        yield one


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    etl = app.pipeline("etl")
    retry = Retry.constant(60, jitter=0, max_attempts=3)
    etl.spark_station("raw", to=["a", "b"], schema="n int", retry=retry)(lambda items: items)
    for end in ("a", "b"):
        etl.station(end)(lambda item: item)
    return etl


def reserved(app: Stanchion, etl: Pipeline, size: int = 10) -> JobRow:
    """Push a chunk, and reserve it."""
    etl.push_chunks([{"n": n} for n in range(size)])
    (row,) = app.store.claim(Claim("etl.raw", 1, "token", lease=60.0)).rows
    return row


def rows(row: JobRow, *given: tuple[int, str | None, str | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ROWS.names, (row.id, *one), strict=True)) for one in given], ROWS)


def settle(etl: Pipeline, row: JobRow, found: pa.Table) -> Any:
    station = plan_of(etl).station("raw")
    outcome = ItemEnds(station).outcome(row, found)
    assert ReservedItems(station, "token", ()).settle([outcome], [row]) == 1
    return outcome


def items(etl: Pipeline, station: str, **where: Any) -> list[Any]:
    found = [job.payload for job in etl.queue(station).find(**where)]
    return [one for payload in found for one in (payload if isinstance(payload, Chunk) else [payload])]


def test_a_chunk_that_stays_whole_moves(app: Stanchion, etl: Pipeline) -> None:
    row = reserved(app, etl)
    assert isinstance(settle(etl, row, rows(row, *((n, "a", f'{{"m":{n}}}', None) for n in range(10)))), Move)
    assert items(etl, "a") == [{"m": n} for n in range(10)]
    assert [job.id for job in etl.queue("a").find()] == [row.id]


def test_a_chunk_is_divided_by_the_ends_of_its_items(app: Stanchion, etl: Pipeline) -> None:
    row = reserved(app, etl)
    moved = [(n, "ab"[n % 2], f'{{"m":{n}}}', None) for n in range(5)]
    found = rows(row, *moved, (5, "a", "{}", "five"), (7, "b", "{}", "seven"), (8, None, None, None))
    assert isinstance(settle(etl, row, found), Commit)
    assert (items(etl, "a"), items(etl, "b")) == ([{"m": 0}, {"m": 2}, {"m": 4}], [{"m": 1}, {"m": 3}])
    (retried,) = etl.queue("raw").find(state="scheduled")
    assert (retried.attempts, list(retried.payload)) == (1, [{"n": 5}, {"n": 7}])
    assert retried.payload.names(retried.id) == [f"{row.id}/5", f"{row.id}/7"]
    (letter,) = etl.dead_letters.find()
    assert letter.payload == {"n": 8}
    assert "does not fit the schema of station 'raw' (n int): {\"n\":8}" in letter.errors[-1]["error"]
    (status, *_) = etl.status().stations
    assert (status.came, status.out, status.dropped, status.dead, status.retried) == (10, 5, 2, 1, 2)


def test_a_row_that_is_too_large_buries_its_item(app: Stanchion, etl: Pipeline) -> None:
    row = reserved(app, etl, 3)
    large = f'{{"m":"{"x" * 2000}"}}'
    settle(etl, row, rows(row, (0, "a", "{}", None), (1, "a", large, None), (2, "a", "{}", None)))
    assert items(etl, "a") == [{}, {}]
    (letter,) = etl.dead_letters.find()
    assert (letter.payload, letter.errors[-1]["error"][:12]) == ({"n": 1}, "InvalidInput")


def test_items_that_do_not_fit_a_table_in_a_folder_are_dead(app: Stanchion, tmp_path: Path) -> None:
    etl = app.pipeline("etl")
    table = Table(f"parquet://{tmp_path / 'rows'}", name="rows", schema="m int not null")
    etl.spark_station("raw", to=table, schema="n int")(lambda items: items)
    row = reserved(app, etl, 4)
    made = ['{"m":0}', '{"m":"one"}', '{"m":2}', '{"m":3}']
    settle(etl, row, rows(row, *((n, "rows", payload, None) for n, payload in enumerate(made))))
    (letter,) = etl.dead_letters.find()
    assert (letter.payload, "does not fit table" in letter.errors[-1]["error"]) == ({"n": 1}, True)
    assert items(etl, "rows") == [{"m": 0}, {"m": 2}, {"m": 3}]


@pytest.mark.parametrize(
    ("place", "told"), [(10, "keep the values of job_id"), (-1, "keep the values of job_id"), (0, "has two ends")]
)
def test_rows_of_no_item(app: Stanchion, etl: Pipeline, place: int, told: str) -> None:
    row = reserved(app, etl)
    with pytest.raises(InvalidInput, match=told):
        settle(etl, row, rows(row, (0, "a", "{}", None), (place, "a", "{}", None)))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_rows_are_taken_together_by_their_jobs(size: int) -> None:
    """Also of a job whose rows come in several batches."""
    listed = [dict.fromkeys(ROWS.names) | {"job": job, "place": n} for job in "abc" for n in range(4)]
    some = [pa.RecordBatch.from_pylist(listed[first : first + size], ROWS) for first in range(0, len(listed), size)]
    empty = pa.RecordBatch.from_pylist([], ROWS)
    found = [(job, table.column("place").to_pylist()) for job, table in by_job([empty, *some, empty])]
    assert found == [(job, [0, 1, 2, 3]) for job in "abc"]
