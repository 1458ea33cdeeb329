"""The enrichment by Spark: a whole batch of flights joined with tables that stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flights.source import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def enrich_all(flights: DataFrame) -> DataFrame:
    """Do to a batch of flights what `enrich` does to one."""
    for name, table in TABLES.items():
        flights = flights.join(_static(flights.sparkSession, name), list(table.key), "left")
    return flights


def _static(spark: SparkSession, name: str) -> DataFrame:
    """Return the columns that flights are joined by, and what is known in one column; small enough for each task."""
    from pyspark.sql import functions as f

    table = TABLES[name]
    known = [f.col(column).cast(type_).alias(column) for column, type_ in table.columns.items()]
    by = [f.col(column).alias(flights_column) for flights_column, column in table.key.items()]
    rows = spark.read.csv(table.file.as_uri(), header=True, nullValue="NA")
    return f.broadcast(rows.select(*by, f.struct(*known).alias(name)))
