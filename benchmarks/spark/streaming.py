"""Jobs from queue to queue in micro-batches: how many, and how soon a single one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.contenders import Place
from benchmarks.measure import GAPS, TIMEOUT, MeasurementFailed
from benchmarks.spark.engine import opened, payloads, url_of
from benchmarks.spark.writing import BLOCK
from stanchion import Queue, Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RAW, CLEAN = "raw", "clean"
WARM_UP = 5
"""Single jobs before a measurement."""

_LOOK = 0.002
_APPENDED, _MOVED = ("payload",), ("id as job_id", "payload")


class Streamed(NamedTuple):
    """Seconds of a query's batches, and those from its start to its end."""

    in_batches: float
    whole: float


def append(spark: SparkSession, place: Place, folder: Path, per_batch: int) -> Streamed:
    """Outputs stored and inputs acknowledged in one transaction."""
    return _stream(_query(spark, place, folder, "append", _APPENDED, per_batch))


def move(spark: SparkSession, place: Place, folder: Path, per_batch: int) -> Streamed:
    """Each job goes on to the other queue."""
    return _stream(_query(spark, place, folder, "move", _MOVED, per_batch))


def chunks(spark: SparkSession, place: Place, folder: Path, per_batch: int) -> Streamed:
    """The same, of jobs of many rows into jobs of many rows."""
    return _stream(_query(spark, place, folder, "append", _APPENDED, per_batch).option("rowsPerJob", BLOCK))


def micro_batches(spark: SparkSession, place: Place, folder: Path, samples: int) -> list[float]:
    """Return the seconds from a push to the moment when its job is acknowledged by an idle query."""
    with opened(place) as app:
        query = _query(spark, place, folder, "append", _APPENDED, per_batch=1000).start()
        try:
            return _acknowledged(app.queue(RAW), samples)
        finally:
            query.stop()


def rows_to_nowhere(spark: SparkSession, place: Place, folder: Path, per_batch: int) -> Streamed:
    """Spark's own part, the floor: as many rows in as many batches, made by Spark and dropped."""
    with opened(place) as app:
        number = -(-app.queue(RAW).size().total // per_batch)
    began = perf_counter()
    seconds = _batches_to_nowhere(spark, folder, per_batch, number)
    return Streamed(sum(seconds), perf_counter() - began)


def empty_batches(spark: SparkSession, place: Place, folder: Path, samples: int) -> list[float]:
    """Return the seconds of Spark's own batches of one row, the floor: made by Spark and dropped."""
    return _batches_to_nowhere(spark, folder, 1, WARM_UP + samples)[WARM_UP:]


def _batches_to_nowhere(spark: SparkSession, folder: Path, rows: int, number: int) -> list[float]:
    """Return the seconds of so many batches."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load().selectExpr("value")
    writer = made.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start()
    try:
        _await(lambda: len(query.recentProgress) >= number)
        return [progress.batchDuration / 1000 for progress in query.recentProgress[:number]]
    finally:
        query.stop()


def picked_up(spark: SparkSession, place: Place, folder: Path, samples: int) -> list[float]:
    """Return the same of an idle worker, which has nothing to do with the job."""
    with opened(place) as app:
        etl = app.pipeline("single")
        etl.station(RAW)(lambda item: item)
        worker = Worker(app, queues=etl.queues)
        worker.start()
        try:
            return _acknowledged(etl.queue(RAW), samples)
        finally:
            worker.stop()


def _acknowledged(queue: Queue, samples: int) -> list[float]:
    gaps = random.Random(samples)
    seconds = []
    for item in payloads(WARM_UP + samples):
        sleep(gaps.uniform(*GAPS))
        began = perf_counter()
        queue.push(item)
        _await(lambda: queue.size().total == 0)
        seconds.append(perf_counter() - began)
    return seconds[WARM_UP:]


def _await(reached: Callable[[], bool]) -> None:
    deadline = monotonic() + TIMEOUT
    while not reached():
        if monotonic() > deadline:
            raise MeasurementFailed(f"a job was not acknowledged within {TIMEOUT:g} s")
        sleep(_LOOK)


def _query(
    spark: SparkSession, place: Place, folder: Path, mode: str, columns: tuple[str, ...], per_batch: int
) -> DataStreamWriter:
    url = url_of(place)
    reads: dict[str, Any] = {"url": url, "queue": RAW, "maxRecordsPerBatch": per_batch}
    writes = {"url": url, "stream": RAW, "mode": mode, "checkpointLocation": str(folder / "checkpoint")}
    writes |= {"to": CLEAN} if mode == "move" else {"queue": CLEAN}
    jobs = spark.readStream.format("stanchion").options(**reads).schema("id string, payload string").load()
    rows = jobs.selectExpr(*columns)
    return rows.writeStream.format("stanchion").options(**writes)


def _stream(writer: DataStreamWriter) -> Streamed:
    began = perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    whole = perf_counter() - began
    return Streamed(sum(progress.batchDuration for progress in query.recentProgress) / 1000, whole)
