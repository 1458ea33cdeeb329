"""Queues with a schema: typed columns, writes that are checked, and jobs that do not fit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from cryptography.fernet import Fernet
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from stanchion import JobState, Stanchion
from stanchion.context import context_of
from stanchion.core.spark_errors import JobsMisfit
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.options import checked_options
from stanchion.spark.datasource.reading.read import columns_of, reader_of, schema_of
from stanchion.spark.datasource.reading.stream_read import StreamPart, StreamReader, stream_reader
from stanchion.spark.datasource.writing.columns import plain_columns
from stanchion.spark.datasource.writing.new_jobs import JobMaker
from stanchion.spark.datasource.writing.write import JobsWriter, Staged, writer_of
from stanchion.stores.records.jobs import NewJob
from stanchion.streams.poison import Ended, blamed
from stanchion.streams.state import Run, StreamState
from tests.spark.conftest import nightly
from tests.spark.places import opened, read, write
from tests.spark.supervision import supervised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "id bigint not null, city string, miles double"


def struct(name: str, kind: DataType) -> StructType:
    """Return rows of one column."""
    return StructType([StructField(name, kind)])


COLUMNS = StructType(
    [
        StructField("id", StringType()),
        StructField("payload", StructType([StructField("city", StringType()), StructField("id", LongType())])),
    ]
)
"""The id of jobs, and two fields of their payloads, in another order."""


@pytest.fixture(
    params=["sqlite_url", *map(nightly, ("pg_url", "mariadb_url", "redis_url", "mongo_url"))],
)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = (
        f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite_url" else request.getfixturevalue(request.param)
    )
    with opened(url) as app:
        yield app


def old(app: Stanchion, *payloads: str) -> list[str]:
    """Push as a release does that knows no schemas; return the ids."""
    made = [NewJob(f"0190a000-0000-7000-8000-{n:012x}", "orders", text) for n, text in enumerate(payloads)]
    app.store.push(made)
    return [job.id for job in made]


class Stream:
    """A stream of typed payloads, as Spark would call it."""

    def __init__(self, app: Stanchion, schema: StructType = COLUMNS, **options: Any) -> None:
        given = {"url": app.url, "queue": "orders", "typed": "true", "partitions": "2", "poll": "0.01", **options}
        self.reader: StreamReader = stream_reader(given, schema)
        self.at = self.reader.initialOffset()

    def batch(self) -> list[dict[str, Any]]:
        """Read the next batch, in copies of the reader as tasks have them."""
        end = self.reader.latestOffset(self.at, ReadMaxRows(1000))
        parts = self.reader.partitions(self.at, end)
        self.at = end
        self.sizes = {part.part.size for part in cast("list[StreamPart]", parts)}
        tasks = [pickle.loads(pickle.dumps(self.reader)) for _ in parts]  # noqa: S301 - our own
        return [
            row for task, part in zip(tasks, parts, strict=True) for some in task.read(part) for row in some.to_pylist()
        ]

    def payloads(self) -> list[Any]:
        return [row["payload"] for row in self.batch()]


def rows_of(app: Stanchion, schema: StructType = COLUMNS, **options: Any) -> list[dict[str, Any]]:
    """Return what a batch read gives, as Spark would call it."""
    reader = reader_of({"url": app.url, "queue": "orders", "typed": "true", **options}, schema)
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    return [row for part in reader.partitions() for some in copy.read(part) for row in some.to_pylist()]


class TestTypedRead:
    def test_the_columns_are_those_of_the_schema(self, app: Stanchion) -> None:
        app.queue("orders", schema=f"{ORDERS}, `a.b` struct<x:array<date> not null>").push({"id": 1, "a.b": {"x": []}})
        given = {"url": app.url, "queue": "orders", "typed": "TRUE"}
        ddl = schema_of(given)
        assert "payload struct<id:bigint,city:string,miles:double,`a.b`:struct<x:array<date>>>," in ddl
        assert "payload string" in schema_of({"url": app.url, "queue": "orders"})
        assert "finished_at timestamp" in schema_of({**given, "of": "history"})

    def test_rows_have_them_and_calls_have_none(self, app: Stanchion) -> None:
        orders = app.queue("orders", schema=ORDERS)
        orders.push_many([{"id": 2**53 + 1, "city": "Rome"}, {"id": 2}])
        app.using("work", queue="orders").enqueue(1)
        found = rows_of(app)
        assert all(list(row) == ["id", "payload"] for row in found)
        assert sorted(str(row["payload"]) for row in found) == sorted(
            (str({"city": "Rome", "id": 2**53 + 1}), str({"city": None, "id": 2}), "None")
        )

    def test_history_too(self, app: Stanchion) -> None:
        app.queue("orders", schema=ORDERS).push({"id": 1, "city": "Oslo"})
        app.queue("orders").reserve()[0].commit()
        assert [row["payload"] for row in rows_of(app, of="history")] == [{"city": "Oslo", "id": 1}]

    def test_jobs_that_do_not_fit(self, app: Stanchion) -> None:
        app.queue("orders", schema=ORDERS).push({"id": 1})
        bad, _ = old(app, '{"id":"x"}', '{"id":2}')
        with pytest.raises(JobsMisfit, match=rf"1 of \d jobs .* {bad}: field id is a string, not bigint"):
            rows_of(app)
        found = {row["id"]: row["payload"] for row in rows_of(app, misfits="null")}
        assert len(found) == 3
        assert found[bad] is None
        with pytest.raises(InvalidInput, match="misfits=null"):
            rows_of(app, misfits="bury")

    def test_encrypted_payloads(self, app: Stanchion) -> None:
        key = Fernet.generate_key().decode()
        Stanchion(app.url, keys=[key]).queue("orders", schema=ORDERS).push({"id": 1, "city": "Rome"})
        assert [row["payload"] for row in rows_of(app, keys=key)] == [{"city": "Rome", "id": 1}]
        with pytest.raises(JobsMisfit, match="keys"):
            rows_of(app)

    def test_what_can_not_be_asked_for(self, app: Stanchion) -> None:
        app.queue("plain").push(1)
        app.queue("orders", schema=ORDERS).push({"id": 1})
        place = {"url": app.url, "typed": "true"}
        for given, said in (
            ({"queue": "plain"}, "has no schema"),
            ({"queue": "unknown"}, "has no schema"),
            ({}, "needs the option queue"),
            ({"queue": "orders", "typed": "yes"}, "true or false"),
        ):
            with pytest.raises(InvalidInput, match=said):
                schema_of({**place, **given})
        for kind, said in (
            (struct("town", StringType()), "no field 'town'"),
            (struct("id", IntegerType()), "type bigint, not int"),
            (StringType(), "is struct<"),
            (struct("city", BinaryType()), "not binary"),
        ):
            asked = struct("payload", kind)
            with pytest.raises(InvalidInput, match=said):
                columns_of(checked_options({**place, "queue": "orders"}, "read"), "jobs", asked)


class TestTypedStream:
    def test_rows_have_the_columns(self, app: Stanchion) -> None:
        orders = app.queue("orders", schema=ORDERS)
        orders.push_many([{"id": n, "miles": n / 2} for n in range(100)])
        assert sorted(row["id"] for row in Stream(app).payloads()) == list(range(100))

    def test_fields_that_are_added_flow_on(self, app: Stanchion) -> None:
        app.queue("orders", schema=ORDERS).push({"id": 1})
        stream = Stream(app)
        assert stream.payloads() == [{"city": None, "id": 1}]
        with opened(app.url) as newer:
            newer.queue("orders", schema=f"{ORDERS}, note string").push({"id": 2, "city": "Rome", "note": "n"})
        assert stream.payloads() == [{"city": "Rome", "id": 2}]

    def test_by_default_a_misfit_stops_the_stream(self, app: Stanchion) -> None:
        app.queue("orders", schema=ORDERS)
        app.setup()
        (bad,) = old(app, '{"id":"x"}')
        stream = Stream(app)
        with pytest.raises(JobsMisfit):
            stream.batch()
        again = Stream(app)
        with pytest.raises(JobsMisfit):
            again.batch()
        job = app.get(bad)
        assert job is not None
        assert (job.state, job.failures) == (JobState.RUNNING, 0)

    def test_jobs_are_not_blamed_for_it(self) -> None:
        state = StreamState("1", "orders", "d", reserved=1, begun=Run("r", 1, 1))
        for error, innocent in ((JobsMisfit("orders", 1, 1, 9, "1", "it is null"), True), (ValueError("x"), False)):
            told = Ended(f"{type(error).__module__}.{type(error).__name__}: {error}")
            assert (blamed(state, lambda _, told=told: told) is None) is innocent  # type: ignore[misc]

    def test_misfits_are_buried_before_the_batch_is_read(self, app: Stanchion) -> None:
        orders = app.queue("orders", schema=ORDERS)
        orders.push_many([{"id": n} for n in range(20)])
        bad = old(app, '{"id":"x"}', "[]", "{")
        stream = Stream(app, misfits="bury")
        assert len(stream.payloads()) == 20
        assert stream.sizes == {20}, "the sink waits for jobs that are dead"
        assert orders.size().running == 20
        for job_id in bad:
            job = app.get(job_id)
            assert job is not None
            assert job.state is JobState.DEAD
            assert "PayloadMisfit: " in str(job.errors)
        orders.push({"id": 21})
        assert stream.payloads() == [{"city": None, "id": 21}]
        assert orders.counts().committed == 20

    def test_a_batch_of_misfits_alone_is_empty(self, app: Stanchion) -> None:
        orders = app.queue("orders", schema=ORDERS)
        app.setup()
        old(app, '{"id":"x"}')
        stream = Stream(app, misfits="bury")
        assert stream.payloads() == []
        orders.push({"id": 1})
        assert stream.payloads() == [{"city": None, "id": 1}]

    @pytest.mark.parametrize(("most", "stops"), [("9", True), ("10", False)])
    def test_the_brake(self, app: Stanchion, most: str, stops: bool) -> None:
        orders = app.queue("orders", schema=ORDERS)
        orders.push_many([{"id": n} for n in range(90)])
        bad = old(app, *['{"id":"x"}'] * 10)
        stream = Stream(app, misfits="bury", maxMisfits=most)
        if stops:
            with pytest.raises(JobsMisfit, match="10 of 100 jobs"):
                stream.batch()
        else:
            assert len(stream.payloads()) == 90
        found = [app.get(job_id) for job_id in bad]
        assert {job.state for job in found if job} == {JobState.RUNNING if stops else JobState.DEAD}

    def test_misfits_may_be_null(self, app: Stanchion) -> None:
        app.queue("orders", schema=ORDERS)
        app.setup()
        old(app, '{"id":"x"}', '{"id":1}')
        assert Stream(app, misfits="null").payloads() == [None, {"city": None, "id": 1}]


def writer(app: Stanchion) -> JobsWriter:
    return writer_of({"url": app.url, "queue": "orders"}, struct("payload", StringType()), overwrite=False)


class TestTypedWrite:
    def test_rows_that_fit_are_not_looked_at(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        app.queue("orders", schema=ORDERS).push({"id": 0})
        fast = JobsWriter(*(vars(writer(app))[name] for name in ("place", "maker", "write_id")))
        if app.store.capabilities.prepared_jobs:
            monkeypatch.setattr(JobMaker, "jobs", None)
        texts = [f'{{"id":{n},"city":"é","miles":0.5}}' for n in range(50)]
        fast.commit([fast.write(iter([pa.RecordBatch.from_pydict({"payload": texts})]))])
        assert app.queue("orders").size().total == 51
        assert all(job.payload["city"] == "é" for job in app.queue("orders").find() if job.payload["id"])

    @pytest.mark.parametrize("odd", ['{"id":"2"}', '{"id": 1.0}', '{"id":1,"x":1}', "{}", '{"miles":3}'])
    def test_the_error_names_field_row_and_reason(self, app: Stanchion, odd: str) -> None:
        app.queue("orders", schema=ORDERS).push({"id": 0})
        own = writer(app)
        batch = pa.RecordBatch.from_pydict({"payload": ['{"id":1}', odd, '{"id":3}']})
        assert isinstance(own.maker, JobMaker)
        assert plain_columns(own.maker, context_of(app), batch) is None
        refused = own.write(iter([batch]))
        assert isinstance(refused, Staged)
        assert "payload 2 of the batch does not fit the schema of queue 'orders' (version 1): field " in str(
            refused.refused
        )
        with pytest.raises(InvalidInput, match="no row was enqueued"):
            own.commit([refused])
        assert app.queue("orders").size().total == 1

    def test_rows_that_need_a_look_may_fit_too(self, app: Stanchion) -> None:
        app.queue("orders", schema=f"{ORDERS}, price decimal(4,2)").push({"id": 0})
        own = writer(app)
        texts = ['{"id":1,"price":10.50}', '{ "id" : 2 , "price" : "1.25" }', '{"id":3,"miles":9007199254740992}']
        own.commit([own.write(iter([pa.RecordBatch.from_pydict({"payload": texts})]))])
        assert app.queue("orders").size().total == 4


class TestWithSpark:
    """The whole way, through a session."""

    @contextmanager
    def _filled(self, url: str) -> Iterator[Stanchion]:
        with opened(url) as app:
            schema = (
                f"{ORDERS}, at timestamp, tags map<string,array<int>>, price decimal(10,2), `a.b` struct<`c d`:date>"
            )
            app.queue("orders", schema=schema)
            app.setup()
            yield app

    @pytest.mark.nightly
    def test_written_read_and_streamed(self, spark: SparkSession, tmp_path: Path) -> None:
        with self._filled(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
            at = "timestamp'2026-01-31 08:00:00'"
            rows = spark.range(20).selectExpr(
                f"to_json(struct(id, 'Rome' as city, id / 4D as miles, {at} as at, map('t', array(1, null)) as tags, "
                "cast(id as decimal(10,2)) as price, struct(date'2026-01-31' as `c d`) as `a.b`)) as payload"
            )
            write(rows, app, queue="orders")
            found = read(spark, app, queue="orders", typed=True).where("payload.id < 10").select("payload.*").collect()
            assert sum(row.miles for row in found) == 11.25
            row = next(row for row in found if row.id == 7)
            assert (row.price, row.tags, row.at) == (Decimal("7.00"), {"t": [1, None]}, datetime(2026, 1, 31, 8))
            assert str(row["a.b"]["c d"]) == "2026-01-31"
            old(app, '{"id":"x"}')
            options = {"url": app.url, "queue": "orders", "typed": "true", "misfits": "bury"}
            stream = spark.readStream.format("stanchion").options(**options).load()
            out = stream.selectExpr("id as job_id", "to_json(struct(payload.id, payload.miles)) as payload")
            query = out.writeStream.format("stanchion").trigger(availableNow=True)
            query = query.options(url=app.url, stream="orders", to="out", checkpointLocation=str(tmp_path / "c"))
            supervised(lambda: query.start().awaitTermination())
            assert sorted(job.payload["id"] for job in app.queue("out").find()) == list(range(20))
            assert [job.payload for job in app.queue("orders").find(state=JobState.DEAD)] == [{"id": "x"}]

    @pytest.mark.nightly
    def test_jobs_that_keep_their_payload_move_where_it_fits(self, spark: SparkSession, tmp_path: Path) -> None:
        with self._filled(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
            app.queue("raw").push_many([{"id": 1}, {"id": "x"}, {"id": 2}])
            options = {"url": app.url, "queue": "raw"}
            moves = spark.readStream.format("stanchion").options(**options).load().selectExpr("id as job_id")
            query = moves.writeStream.format("stanchion").trigger(availableNow=True)
            query = query.options(url=app.url, stream="raw", mode="move", to="orders")
            supervised(lambda: query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination())
            assert sorted(job.payload["id"] for job in app.queue("orders").find()) == [1, 2]
            (dead,) = app.queue("raw").find(state=JobState.DEAD)
            assert (dead.payload, "field id is a string" in str(dead.errors)) == ({"id": "x"}, True)
