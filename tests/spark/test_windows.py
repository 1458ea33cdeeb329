"""Stations with a watermark: windows over the stream of their items, and late items."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.context import context_of
from stanchion.context.queues.pauses import pauses_of
from stanchion.errors import InvalidInput, StanchionError
from stanchion.ops.reads.expectations import read_expectations
from stanchion.ops.reads.pipelines import Known
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine, stateful

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.nightly

START = datetime(2027, 1, 15, 8, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def sums(items: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    return items.groupBy(f.window("at", "30 seconds")).agg(f.sum("n").alias("sum")).selectExpr("window.start", "sum")


def declared(app: Stanchion, checkpoint: Path, **options: Any) -> Pipeline:
    """raw, then sums of half a minute; late items go to their own station."""
    etl = app.pipeline("rides")
    given = {"watermark": ("at", "10 seconds"), "late": "late", "to": "sums", "max_per_batch": 10, **options}
    etl.spark_station("raw", schema="n bigint, at timestamp", checkpoint=checkpoint, **given)(sums)
    etl.station("sums")(lambda item: item)
    if given["late"]:
        etl.station("late")(lambda item: item["n"])
    return etl


def results(etl: Pipeline, station: str) -> list[Any]:
    return sorted((job.result for job in etl.queue(station).find(state="done", limit=1000)), key=str)


def test_windows_close_over_runs_and_late_items_go_elsewhere(
    spark: "SparkSession", app: Stanchion, tmp_path: Path
) -> None:
    etl = declared(app, tmp_path / "windows")
    etl.push_many([{"n": n, "at": at(n)} for n in range(25)])  # windows of 0 to 29 seconds, open
    etl.push({"n": "many", "at": at(1)})
    etl.push({"n": 5, "at": None})
    engine.run(etl, spark=spark, available_now=True)
    assert results(etl, "sums") == []
    assert [job.errors[-1]["error"].partition(":")[0] for job in etl.dead_letters.find()] == ["PayloadMisfit"] * 2

    etl.push({"n": 100, "at": at(14)})  # the watermark: too late; the first window is still open
    etl.push({"n": 1000, "at": at(14.001)})
    engine.run(etl, spark=spark, available_now=True)
    assert (results(etl, "sums"), results(etl, "late")) == ([], [100])

    etl.push({"n": 7, "at": at(41)})  # closes the first window, also without further items
    engine.run(etl, spark=spark, available_now=True)
    assert results(etl, "sums") == [{"start": "2027-01-15T08:00:00.000Z", "sum": sum(range(25)) + 1000}]
    assert all(one.depth.total == 0 for one in etl.status().stations)

    (tmp_path / "windows").rename(tmp_path / "lost")
    with pytest.raises(InvalidInput, match=r"the checkpoint of station 'raw' is missing"):
        engine.run(etl, spark=spark, available_now=True)
    stateful.begin_again(etl, "raw")
    etl.push({"n": 3, "at": at(2)})
    etl.push({"n": 4, "at": at(80)})
    engine.run(etl, spark=spark, available_now=True)
    assert results(etl, "late") == [100]
    assert [one["sum"] for one in results(etl, "sums")] == [sum(range(25)) + 1000, 3]


def test_windows_that_a_dead_driver_has_not_published(
    spark: "SparkSession", app: Stanchion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark publishes what the last batch has closed in a batch without items, which a driver may not live to see."""
    etl = declared(app, tmp_path / "windows")
    etl.push_many([{"n": 1, "at": at(0)}, {"n": 2, "at": at(60)}])
    with monkeypatch.context() as change:
        change.setattr(engine._Engine, "_due_behind_windows", lambda _self: set())
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        try:
            engine.run(etl, spark=spark, available_now=True)
        finally:
            spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    assert results(etl, "sums") == []
    for _ in range(3):  # also again and again
        engine.run(etl, spark=spark, available_now=True)
        assert [one["sum"] for one in results(etl, "sums")] == [1]
    etl.push({"n": 4, "at": at(100)})
    engine.run(etl, spark=spark, available_now=True)
    assert [one["sum"] for one in results(etl, "sums")] == [1, 2]


def test_several_targets_and_expectations(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    """An item that does not meet an expectation ends before any state has seen it; also its time is not seen."""
    app.semaphore("geo", capacity=2)
    etl = app.pipeline("rides")
    given: Any = {"watermark": ("at", "10 seconds"), "late": "late", "to": ["sums", "big"]}

    @etl.spark_station("raw", schema="n bigint, at timestamp", checkpoint=tmp_path / "windows", **given)
    @etl.expect("n < 1000", on_fail="bury")
    @etl.expect("n <> 13  -- nobody's number", on_fail="drop")
    @etl.expect("n <> 99", on_fail="stop")
    def raw(items: "DataFrame") -> "dict[str, DataFrame]":
        return {"sums": sums(items), "big": items.where("n > 20").select("n")}

    etl.station("sums")(lambda item: item)
    etl.station("big", limits=["geo"])(lambda item: item["n"])
    etl.station("late")(lambda item: item["n"])

    numbers = [*range(25), 1000, 2000]
    etl.push_many([{"n": n, "at": at(n)} for n in numbers])
    engine.run(etl, spark=spark, available_now=True)
    assert (results(etl, "sums"), results(etl, "big")) == ([], [21, 22, 23, 24])
    etl.push({"n": 13, "at": at(90)})
    etl.push({"n": 5, "at": at(25)})
    engine.run(etl, spark=spark, available_now=True)
    assert results(etl, "sums") == []
    etl.push({"n": 30, "at": at(41)})
    etl.push({"n": 99, "at": at(15)})
    engine.run(etl, spark=spark, available_now=True)
    assert [one["sum"] for one in results(etl, "sums")] == [sum(range(25)) - 13 + 5]
    assert (results(etl, "big"), results(etl, "late")) == ([21, 22, 23, 24, 30], [])
    errors = sorted(job.errors[-1]["error"] for job in etl.dead_letters.find())
    assert errors == [f"ExpectationFailed: n < 1000\nn = {n}" for n in (1000, 2000)]
    assert [job.payload["n"] for job in etl.find(state="cancelled")] == [13, 13]
    assert [job.payload["n"] for job in etl.queue("raw").find(state="ready")] == [99]
    assert pauses_of(context_of(app).store, ["rides.raw"])["rides.raw"].note.endswith(" failed n <> 99 with n = 99")
    counted = read_expectations(context_of(app).store, Known(plan_of(etl).record, "code"))
    assert [(one.on_fail, one.failed) for one in counted] == [("bury", 2), ("drop", 2), ("stop", 1)]


def test_a_checkpoint_that_only_spark_can_see_is_missed_too(
    spark: "SparkSession", app: Stanchion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etl = declared(app, tmp_path / "windows")
    etl.push({"n": 1, "at": at(0)})
    engine.run(etl, spark=spark, available_now=True)
    (tmp_path / "windows").rename(tmp_path / "lost")
    monkeypatch.setattr(stateful, "_is_missing", lambda _folder: False)
    with pytest.raises(StanchionError, match="its checkpoint is missing"):
        engine.run(etl, spark=spark, available_now=True)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda items: {"other": items}, r"rows for 'other', which is not in its to= \(sums\)"),
        (lambda _: {}, "returned no DataFrame"),
        (lambda _: {"sums": 5}, "must return DataFrames, not int"),
        (lambda items: items.select("n", "job_id"), "leave the column job_id out"),
        (lambda items: items.sparkSession.range(3), "must make its rows of the stream that it gets"),
    ],
)
def test_what_its_function_returns(
    spark: "SparkSession", app: Stanchion, tmp_path: Path, work: Callable[["DataFrame"], Any], told: str
) -> None:
    etl = app.pipeline("rides")
    given: Any = {"watermark": ("at", "10 seconds"), "to": "sums", "checkpoint": tmp_path / "windows"}
    etl.spark_station("raw", schema="n bigint, at timestamp", **given)(work)
    etl.station("sums")(lambda item: item)
    with pytest.raises(InvalidInput, match=told):
        engine.run(etl, spark=spark)


def test_payloads_are_read_by_a_schema_that_is_given(spark: "SparkSession", app: Stanchion) -> None:
    app.queue("plain").push_many([{"n": 1}, {"n": "many"}])
    options = {"url": app.url, "queue": "plain", "typed": "true", "payloadSchema": "n bigint", "misfits": "null"}
    found = spark.read.format("stanchion").options(**options).load().select("payload.n")
    assert sorted((row.n for row in found.collect()), key=str) == [1, None]
