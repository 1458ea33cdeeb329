"""A pipeline of three stations, which workers or Spark run, and the same by pandas.

Each contender returns the number of items that came to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stanchion.pipelines import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion import Stanchion

THREADS = 8

Items = Sequence[Mapping[str, object]]


def declared(app: Stanchion) -> Pipeline:
    """Declare the stations; there is next to nothing to do at each."""
    etl = app.pipeline("bench")

    @etl.station("raw", to="priced")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "length": len(item["text"])}

    @etl.station("priced", to="done", payload="merge")
    def priced(item: dict[str, Any]) -> dict[str, Any]:
        return {"price": item["n"] * 0.5}

    @etl.station("done")
    def done(item: dict[str, Any]) -> int:
        return int(item["n"])

    return etl


def on_workers(spark: SparkSession, etl: Pipeline, items: Items) -> int:
    """By the threads of one worker process."""
    etl.run(THREADS, until_empty=True)
    return etl.queue("done").counts().committed


def on_spark(spark: SparkSession, etl: Pipeline, items: Items) -> int:
    """By Spark on all cores."""
    from stanchion.spark.stations import engine as stations

    stations.run(etl, spark=spark, available_now=True)
    return etl.queue("done").counts().committed


def in_pandas(spark: SparkSession, etl: Pipeline, items: Items) -> int:
    """By pandas on one core, in memory: without a queue, and nothing is left of it after a death."""
    import pandas as pd

    raw = pd.DataFrame(items)
    raw["length"] = raw["text"].str.len()
    priced = raw.assign(price=raw["n"] * 0.5)
    done = priced["n"].astype(int)
    return int(done.count())
