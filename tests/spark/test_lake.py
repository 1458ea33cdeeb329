"""A stream into a Delta table, through Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from stanchion import Stanchion
from stanchion.jobs.job import JobState
from tests.spark.supervision import supervised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.nightly
def test_typed_rows_by_day(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    """All kinds of columns; two runs of one query; Spark reads the table by its list of files."""
    table, orders = (
        tmp_path / "lake/orders",
        app.queue("orders", schema="id bigint not null, sent timestamp, tags array<string>"),
    )

    def push(numbers: range) -> None:
        orders.push_many([{"id": n, "sent": f"2031-05-0{1 + n % 3}T08:00:00Z", "tags": ["a"]} for n in numbers])

    def run() -> None:
        reads: dict[str, Any] = {"url": app.url, "queue": "orders", "typed": True, "maxRecordsPerBatch": 40}
        frame = spark.readStream.format("stanchion").options(**reads).load()
        rows = frame.selectExpr("id as job", "payload.*", "date(payload.sent) as day", "map(queue, 1.5bd) as costs")
        writes: dict[str, Any] = {"url": app.url, "stream": "orders", "mode": "delta", "partitionBy": "day"}
        query = (
            rows.writeStream.format("stanchion")
            .options(**writes, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(table))
        )
        supervised(query.awaitTermination)

    push(range(100))
    run()
    push(range(100, 130))
    run()
    found = DeltaTable(str(table))
    read = spark.read.option("basePath", str(table)).parquet(*found.file_uris())
    assert read.selectExpr("sum(id)", "count(distinct job)", "count(distinct day)").collect()[0][:] == (
        130 * 129 // 2,
        130,
        3,
    )
    assert read.where("day <> date(sent) or tags[0] <> 'a' or costs['orders'] <> 1.5").count() == 0
    assert found.metadata().partition_columns == ["day"]
    assert orders.size().total == 0
    assert len(orders.find(state=JobState.DONE, limit=1000)) == 130


def test_finished_jobs_go_to_a_table(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    """The stream of history, each finish once, without a store's stream that acknowledges."""
    table, orders = tmp_path / "lake/finished", app.queue("orders", schema="n bigint")

    def finish(numbers: range) -> None:
        orders.push_many([{"n": n} for n in numbers])
        for job in orders.reserve(100):
            job.commit()

    def run() -> None:
        reads: dict[str, Any] = {"url": app.url, "of": "history", "queue": "orders", "typed": True, "overlap": 0.001}
        frame = spark.readStream.format("stanchion").options(**reads, maxRecordsPerBatch=25).load()
        query = (
            frame.selectExpr("id", "state", "payload.n", "finished_at")
            .writeStream.format("stanchion")
            .options(url=app.url, mode="delta", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(table))
        )
        supervised(query.awaitTermination)

    finish(range(30))
    run()
    finish(range(30, 40))
    run()
    found = DeltaTable(str(table)).to_pyarrow_table(columns=["n"])["n"].to_pylist()
    assert sorted(found) == list(range(40))
