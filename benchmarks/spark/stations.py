"""A pipeline of three stations, which workers or Spark run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stanchion.pipelines import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion import Stanchion

THREADS = 8


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


def on_workers(spark: SparkSession, etl: Pipeline) -> None:
    """By the threads of one worker process."""
    etl.run(THREADS, until_empty=True)


def on_spark(spark: SparkSession, etl: Pipeline) -> None:
    """By Spark on all cores."""
    from stanchion.spark.stations import engine as stations

    stations.run(etl, spark=spark, available_now=True)
