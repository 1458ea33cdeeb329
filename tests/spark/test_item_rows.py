"""Jobs that carry many items, read as a row for each item."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from stanchion import Send, Stanchion
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import stored
from stanchion.core.ids import new_id
from stanchion.core.spark_errors import JobsMisfit
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.reading import items as item_rows
from stanchion.spark.datasource.reading.history_feed import history_feed
from stanchion.spark.datasource.reading.read import query_of, reader_of
from stanchion.stores.ports import ArrowReads
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.sql.reading import arrow
from tests.spark.places import opened, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


@pytest.fixture(params=["sqlite", "pg_url", "mariadb_url", "redis_url", "mongo_url"])
def store_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        yield one


def push(app: Stanchion, *jobs: list[Any] | dict[str, Any], queue: str = "q", **fields: Any) -> list[str]:
    """Push chunks, which are given as lists, and single items; return the ids of their jobs."""
    codec = context_of(app).codec
    new = [
        NewJob(new_id(), queue, stored(codec, Chunk.of(one)) if isinstance(one, list) else codec.encode(one), **fields)
        for one in jobs
    ]
    app.store.push(new)
    return [job.id for job in new]


def numbers(*ranges: range) -> list[list[dict[str, int]]]:
    return [[{"n": n} for n in one] for one in ranges]


def columns(*names: str, **kinds: Any) -> StructType:
    fields = {**dict.fromkeys(names, StringType()), "item": IntegerType(), **kinds}
    return StructType([StructField(name, kind) for name, kind in fields.items() if name in names or name in kinds])


def rows(app: Stanchion, schema: StructType, **options: str) -> Rows:
    """Return what a batch reads, in the order of the ids."""
    reader = reader_of({"url": str(app.url), "partitions": "1", **options}, schema)
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.schema == found[0].schema for batch in found)
    return sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: row.get("id", ""))


ITEM = columns("id", "item", "payload", item=IntegerType())


def test_each_item_is_a_row(store_app: Stanchion) -> None:
    first, single, second, last = push(
        store_app, [{"n": 1}, {"n": 2}], {"n": 3}, [{"n": 4}, "five", None], {"n": 6}, tenant="t"
    )
    wanted = columns("id", "item", "tenant", "payload", item=IntegerType(), items=IntegerType())
    assert [tuple(row.values()) for row in rows(store_app, wanted)] == [
        (first, 0, "t", '{"n":1}', 2),
        (first, 1, "t", '{"n":2}', 2),
        (single, None, "t", '{"n":3}', None),
        (second, 0, "t", '{"n":4}', 3),
        (second, 1, "t", '"five"', 3),
        (second, 2, "t", "null", 3),
        (last, None, "t", '{"n":6}', None),
    ]


def test_without_contents_too(store_app: Stanchion) -> None:
    first, single = push(store_app, [{"n": 1}, {"n": 2}], {"n": 3})
    assert [row["id"] for row in rows(store_app, columns("id"))] == [first, first, single]
    assert [row["item"] for row in rows(store_app, columns("item", item=IntegerType()))] in (
        [0, 1, None],
        [None, 0, 1],
    )


def test_arrow_and_rows_agree(sql_app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    push(sql_app, *numbers(range(5), range(5, 9)), {"n": 9}, [{"n": 10}, {"m": 1}], {"n": 11})
    by_arrow = rows(sql_app, ITEM)
    monkeypatch.setattr(sql_app.store, "capabilities", replace(sql_app.store.capabilities, arrow=False))
    assert rows(sql_app, ITEM) == by_arrow
    assert len(by_arrow) == 13


def test_rows_are_passed_on_together(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_rows, "ROWS", 100)
    push(app, *(one for n in range(30) for one in ([{"n": n}] * 9, {"n": n})))
    reader = reader_of({"url": str(app.url), "partitions": "1"}, ITEM)
    (part,) = reader.partitions()
    sizes = [batch.num_rows for batch in reader.read(part)]
    assert sum(sizes) == 300
    assert 3 <= len(sizes) <= 4


def test_a_batch_of_sqlite_has_few_large_payloads(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_BATCH_CHARACTERS", 1000)
    monkeypatch.setattr(arrow, "_AT_ONCE", 2)
    push(app, *[[{"n": n}, {"n": n}] for n in range(20)])
    reads = app.store.extension(ArrowReads)
    assert reads is not None
    query = replace(query_of("jobs"), columns=("id", "payload"))
    sizes = [batch.num_rows for batch in reads.select_arrow(query)]
    assert sum(sizes) == 20
    assert len(sizes) >= 5


STRUCT = StructType([StructField("n", IntegerType()), StructField("at", TimestampType())])
TYPED = columns("id", "item", item=IntegerType(), payload=STRUCT)
AT = "2026-01-31T12:00:00+00:00"


class TestTyped:
    def test_items_are_structs(self, sql_app: Stanchion) -> None:
        sql_app.queue("q", schema="n int, at timestamp").push({"n": 0, "at": AT})
        push(sql_app, [{"n": 1, "at": AT}, {"n": 2, "at": None}], [{"n": 3}, {"at": AT}], {"n": 5})
        found = rows(sql_app, TYPED, queue="q", typed="true")
        assert [(row["item"], row["payload"]["n"]) for row in found] == [
            *((None, 0), (0, 1), (1, 2), (0, 3), (1, None), (None, 5)),
        ]
        assert [row["payload"]["at"] is None for row in found] == [False, False, True, True, False, True]

    def test_by_columns_without_their_json(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        app.queue("q", schema="n int, at timestamp").push({"n": 0})
        push(app, [{"n": 1, "at": AT}, {"n": 2, "at": None}])
        monkeypatch.setattr(Chunk, "texts", None)
        assert len(rows(app, TYPED, queue="q", typed="true")) == 3

    def test_fields_that_the_queue_got_since_flow_on(self, app: Stanchion) -> None:
        app.queue("q", schema="n int, at timestamp").push({"n": 0})
        reader = reader_of({"url": str(app.url), "queue": "q", "typed": "true", "partitions": "1"}, TYPED)
        with opened(str(app.url)) as later:
            later.queue("q", schema="n int, at timestamp, more string").push({"n": 1, "more": "x"})
            push(later, [{"n": 2, "at": AT, "more": "x"}] * 2)
        (part,) = reader.partitions()
        found = [row for batch in reader.read(part) for row in batch.to_pylist()]
        assert sorted(row["payload"]["n"] for row in found) == [0, 1, 2, 2]

    def test_an_item_that_does_not_fit_is_named_or_null(self, app: Stanchion) -> None:
        app.queue("q", schema="n int, at timestamp").push({"n": 0})
        (chunk,) = push(app, [{"n": 1}, {"n": 2}, {"n": "three"}])
        with pytest.raises(JobsMisfit, match=f"such as job {chunk}/2: field n is a string"):
            rows(app, TYPED, queue="q", typed="true")
        found = rows(app, TYPED, queue="q", typed="true", misfits="null")
        assert [row["payload"] and row["payload"]["n"] for row in found] == [0, 1, 2, None]


class TestEncrypted:
    def test_items_are_read_with_their_key(self, app: Stanchion) -> None:
        key = Fernet.generate_key().decode()
        with opened(str(app.url), keys=[key]) as sealing:
            push(sealing, [{"n": 1}, {"n": 2}], {"n": 3})
        assert [json.loads(row["payload"])["n"] for row in rows(app, ITEM, keys=key)] == [1, 2, 3]

    def test_without_it_their_jobs_are(self, app: Stanchion) -> None:
        with opened(str(app.url), keys=[Fernet.generate_key().decode()]) as sealing:
            push(sealing, [{"n": 1}, {"n": 2}])
        assert [row["item"] for row in rows(app, columns("item", item=IntegerType()))] == [0, 1]
        with pytest.raises(InvalidInput, match="the items of a job are encrypted; give the option keys"):
            rows(app, ITEM)


class TestHistory:
    @pytest.fixture
    def done(self, app: Stanchion) -> list[str]:
        """Run chunks through an end station that drops items, fails one, and doubles the others."""
        etl = app.pipeline("etl")

        @etl.station("raw", max_attempts=1)
        def raw(item: dict[str, int]) -> float | None:
            if item["n"] == 7:
                raise ValueError("seven")
            return 2.0 * item["n"] if item["n"] % 2 else None

        jobs = etl.push_chunks([{"n": n} for n in range(10)], size=5)
        etl.drain()
        return [job.id for job in jobs]

    def test_items_have_their_results(self, app: Stanchion, done: list[str]) -> None:
        wanted = columns("id", "item", "payload", "result", item=IntegerType())
        found = {(row["id"], row["item"]): row for row in rows(app, wanted, of="history", queue="etl.raw")}
        results = {json.loads(row["payload"])["n"]: row["result"] for row in found.values()}
        assert {n: float(text) for n, text in results.items() if text is not None} == {1: 2.0, 3: 6.0, 5: 10.0, 9: 18.0}
        assert [key for key in found if key[0] == done[0]] == [(done[0], item) for item in range(5)]

    def test_the_items_of_a_divided_chunk_are_in_its_parts(self, app: Stanchion, done: list[str]) -> None:
        found = rows(app, ITEM, of="history")
        assert sorted(json.loads(row["payload"])["n"] for row in found) == [n for n in range(10) if n != 7]
        (letter,) = rows(app, ITEM, queue="etl.dead")
        assert (letter["item"], letter["payload"]) == (None, '{"n":7}')
        assert {row["item"] for row in found if row["id"] == done[1]} == {0, 1, 2, 3}

    def test_a_chunk_all_of_whose_items_are_in_parts_has_no_row(self, app: Stanchion) -> None:
        etl = app.pipeline("etl")
        etl.station("raw", to=["odd", "even"])(lambda item: Send("odd" if item["n"] % 2 else "even"))
        for end in ("odd", "even"):
            etl.station(end)(print)
        (chunk,) = etl.push_chunks([{"n": n} for n in range(10)])
        etl.drain()
        found = rows(app, ITEM, of="history")
        assert sorted(json.loads(row["payload"])["n"] for row in found) == list(range(10))
        assert chunk.id not in {row["id"] for row in found}

    def test_a_stream_of_them_counts_items(self, app: Stanchion) -> None:
        queue = app.queue("q")
        for some in numbers(range(10), range(10, 20), range(20, 30)):
            push(app, some)
            (job,) = queue.reserve()
            job.commit()
        feed = history_feed({"url": str(app.url), "queue": "q", "maxRecordsPerBatch": "15", "overlap": "0.001"}, ITEM)
        feed.prepareForTriggerAvailableNow()
        start, sizes = feed.initialOffset(), []
        while (end := feed.latestOffset(start, feed.getDefaultReadLimit())) != start:
            read = [
                row for part in feed.partitions(start, end) for batch in feed.read(part) for row in batch.to_pylist()
            ]
            sizes.append(len(read))
            start = end
        assert sizes == [20, 10]
        feed._opened.close()


@pytest.mark.nightly_except("postgresql")
def test_with_spark(spark: "SparkSession", sql_app: Stanchion) -> None:
    sql_app.queue("q", schema="n int").push({"n": 0})
    push(sql_app, *numbers(range(1, 100), range(100, 150)), queue="q")
    frame = read(spark, sql_app, queue="q", typed=True)
    assert frame.selectExpr("sum(payload.n)", "count(item)", "count(distinct id)").collect()[0][:] == (11175, 149, 3)
    assert read(spark, sql_app, queue="q").where("item = 7").count() == 2
    assert read(spark, sql_app).count() == 150
