"""The finished items of a report: archived ones, and ones in the store that are not archived yet.

A job that carries a chunk counts as its items. A dead letter counts as a dead job of the queue that it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from stanchion.app import Stanchion
from stanchion.core.service_levels import BANDS
from stanchion.reporting.finished import USED
from stanchion.spark.archiving.rows import FIRST
from stanchion.spark.archiving.table import archived_jobs
from stanchion.spark.datasource.options import checked_options
from stanchion.spark.datasource.reading.items import ItemRows
from stanchion.spark.datasource.reading.read import query_of
from stanchion.spark.datasource.reading.schema import Of, arrow_schema, ddl
from stanchion.stores.fields.jobs import DEATH
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Query

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def live_history(spark: SparkSession, app: Stanchion) -> DataFrame:
    """Return the store's own history as a DataFrame."""
    return _stored(spark, app, "history", USED)


def dead_letters(spark: SparkSession, app: Stanchion) -> DataFrame | None:
    """Return the live dead letters as the dead jobs they were; None without any."""
    dead = Query("live", (Condition("state", "=", JobState.DEAD.value),), limit=1, columns=("id",))
    if not app.store.select(dead).rows:
        return None
    home, at, attempts = DEATH
    letters = _stored(spark, app, "jobs", [name for name in USED if name != "finished_at"])
    return letters.where(F.col("state") == "dead").withColumns(
        {
            "queue": F.col(home),
            "finished_at": F.col(at),
            "started_at": F.lit(None).cast("timestamp"),
            "attempts": F.col(attempts),
            "failures": F.size(F.coalesce(_errors(), F.array())),
        }
    )


def _stored(spark: SparkSession, app: Stanchion, of: Of, names: Sequence[str]) -> DataFrame:
    if not app.store.capabilities.processes:
        made = ItemRows(of, names)
        batches = [batch for rows in pages(app.store, query_of(of)) for batch in made.of_rows(app, rows)]
        return spark.createDataFrame(pa.Table.from_batches(batches, arrow_schema(of, names)))
    kinds = dict(one.split(" ") for one in ddl(of).split(", "))
    url = checked_options({"url": app.url}, "read")["url"]
    reader = spark.read.format("stanchion").option("url", url).option("of", of)
    return reader.schema(", ".join(f"{name} {kinds[name]}" for name in names)).load()


def finished_jobs(
    spark: SparkSession,
    app: Stanchion | None,
    folder: Path | None,
    since: datetime | None,
    until: datetime | None,
    queues: Sequence[str],
) -> DataFrame:
    """Return each finished item once, with the columns of a report: times in seconds, errors and the route as lists."""
    chosen = [F.lit(True)]
    chosen += [F.col("finished_at") >= F.lit(since)] if since else []
    chosen += [F.col("finished_at") < F.lit(until)] if until else []
    chosen += [F.col("queue").isin(*queues)] if queues else []
    parts: list[DataFrame] = []
    if folder is not None:
        archived = archived_jobs(spark, folder)
        parts.append(_filtered(_items(archived), chosen))
    if app is not None:
        live = _filtered(live_history(spark, app), chosen)
        if folder is not None:
            ends = _filtered(archived.where(FIRST), chosen).select("id", "finished_at")
            live = live.join(ends, ["id", "finished_at"], "left_anti")
        parts.append(live.select(*USED))
        letters = dead_letters(spark, app)
        parts += [] if letters is None else [_filtered(letters, chosen)]
    return _computed(reduce(lambda one, other: one.unionByName(other), parts))


def _items(archived: DataFrame) -> DataFrame:
    """Return a row for each item, also of chunks that the archive has in one row; none for a divided chunk."""
    items = F.when(F.col("item").isNull(), F.coalesce("items", F.lit(1))).otherwise(1)
    return archived.withColumn("each", F.explode(F.array_repeat(F.lit(0), items)))


def _filtered(jobs: DataFrame, chosen: list[Column]) -> DataFrame:
    for condition in chosen:
        jobs = jobs.where(condition)
    return jobs.select(*USED)


def _computed(jobs: DataFrame) -> DataFrame:
    band: Any = F
    for number, one in enumerate(BANDS):
        band = band.when(F.col("priority") >= one.least, number)
    ended = F.col("state").isin("done", "dead")
    told = F.from_json("headers", "struct<`x-route`: array<array<string>>, `x-forked`: int>")
    items = F.greatest(F.coalesce("items", F.lit(1)), F.lit(1))  # each has its part of the run time
    own = F.coalesce(told["x-forked"], F.lit(0)) + 1
    route = F.slice(told["x-route"], own, F.size(told["x-route"]))
    return jobs.select(
        "id",
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
        F.when(ended, F.greatest(seconds("finished_at") - seconds("started_at"), F.lit(0.0)) / items).alias("run"),
        _errors().alias("errors"),
        F.when(F.col("headers").contains("x-route"), route).alias("route"),
    )


def _errors() -> Column:
    return F.from_json("errors", "array<struct<error: string, at: double, group: string>>")


def seconds(name: str) -> Column:
    """Return a time in seconds since 1970."""
    return F.unix_micros(name) / F.lit(1e6)
