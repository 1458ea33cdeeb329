"""The finished jobs that a report is about: those of the archive, and those of the store that are not archived yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from stanchion.app import Stanchion
from stanchion.bands import BANDS
from stanchion.codec import Codec
from stanchion.spark.archive_files import IN_FILES
from stanchion.spark.archive_table import existing_archive
from stanchion.spark.options import checked_options
from stanchion.spark.schema import arrow_schema, batch_of_rows, ddl
from stanchion.stores.records import Scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_USED = (
    *("id", "queue", "state", "task", "tenant", "priority", "run_at", "started_at", "finished_at"),
    *("attempts", "failures", "errors", "headers"),
)


def archived_jobs(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the archive in a folder as a DataFrame, with all columns of history."""
    files = [part.place for part in existing_archive(folder).parts()]
    if not files:
        return spark.createDataFrame([], ddl("history"))
    return spark.read.schema(ddl("history")).parquet(*files).select(*IN_FILES.names)


def live_history(spark: SparkSession, app: Stanchion) -> DataFrame:
    """Return the store's own history as a DataFrame."""
    if not app.store.capabilities.processes:
        return _in_this_process(spark, app)
    url = checked_options({"url": app.url}, "read")["url"]
    reader = spark.read.format("stanchion").option("url", url).option("of", "history")
    return reader.schema(_ddl()).load()


def _in_this_process(spark: SparkSession, app: Stanchion) -> DataFrame:
    batches = [
        batch_of_rows(rows, "history", _USED, app.store.now(), Codec()) for rows in app.store.scan(Scan("history"))
    ]
    return spark.createDataFrame(pa.Table.from_batches(batches, arrow_schema("history", _USED)))


def _ddl() -> str:
    kinds = dict(one.split(" ") for one in ddl("history").split(", "))
    return ", ".join(f"{name} {kinds[name]}" for name in _USED)


def finished_jobs(
    spark: SparkSession,
    app: Stanchion | None,
    folder: Path | None,
    since: datetime | None,
    until: datetime | None,
    queues: Sequence[str],
) -> DataFrame:
    """Return each finish once, with what the report computes from: times in seconds, errors and the way as lists."""
    chosen = [F.lit(True)]
    chosen += [F.col("finished_at") >= F.lit(since)] if since else []
    chosen += [F.col("finished_at") < F.lit(until)] if until else []
    chosen += [F.col("queue").isin(*queues)] if queues else []
    parts: list[DataFrame] = []
    if folder is not None:
        parts.append(_filtered(archived_jobs(spark, folder), chosen))
    if app is not None:
        live = _filtered(live_history(spark, app), chosen)
        if parts:
            live = live.join(parts[0].select("id", "finished_at"), ["id", "finished_at"], "left_anti")
        parts.append(live.select(*_USED))
    whole = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    return _computed(whole)


def _filtered(jobs: DataFrame, chosen: list[Column]) -> DataFrame:
    for condition in chosen:
        jobs = jobs.where(condition)
    return jobs.select(*_USED)


def _computed(jobs: DataFrame) -> DataFrame:
    band: Any = F
    for number, one in enumerate(BANDS):
        band = band.when(F.col("priority") >= one.least, number)
    ended = F.col("state").isin("done", "dead")
    way = F.from_json("headers", "struct<`x-way`: array<array<string>>>")["x-way"]
    return jobs.select(
        "queue",
        "state",
        F.coalesce("task", F.lit("")).alias("task"),
        "tenant",
        "attempts",
        "failures",
        band.otherwise(len(BANDS) - 1).alias("band"),
        seconds("finished_at").alias("finished"),
        seconds("started_at").alias("started"),
        F.greatest(seconds("started_at") - seconds("run_at"), F.lit(0.0)).alias("pickup"),
        F.when(ended, F.greatest(seconds("finished_at") - seconds("started_at"), F.lit(0.0))).alias("run"),
        F.from_json("errors", "array<struct<error: string>>")["error"].alias("errors"),
        F.when(F.col("headers").contains("x-way"), way).alias("way"),
    )


def seconds(name: str) -> Column:
    """Return a time in seconds since 1970."""
    return F.unix_micros(name) / F.lit(1e6)
