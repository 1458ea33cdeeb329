"""All jobs of a store, some columns or all: each function returns the seconds that it takes to read them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import psycopg

from benchmarks.contenders import Place
from benchmarks.spark.engine import url_of
from benchmarks.spark.writing import jdbc_options
from stanchion.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIX = ("id", "queue", "state", "priority", "run_at", "payload")
FETCHED = 10_000
"""Rows that JDBC fetches at once."""

_SCHEMA = "id string, queue string, state string, priority int, run_at timestamp, payload string"


def adbc_postgres(spark: SparkSession, place: Place, columns: Sequence[str]) -> float:
    """By the database's Arrow driver in this process alone."""
    from adbc_driver_postgresql import dbapi

    began = perf_counter()
    with closing(dbapi.connect(place.url)) as connection, connection.cursor() as cursor:
        cursor.execute(_all(columns))
        for _batch in cursor.fetch_record_batch():
            pass
    return perf_counter() - began


def rows_sqlite(spark: SparkSession, place: Place, columns: Sequence[str]) -> float:
    """As Python's rows in this process alone."""
    began = perf_counter()
    with closing(sqlite3.connect(place.url)) as connection:
        cursor = connection.execute(_all(columns))
        while cursor.fetchmany(FETCHED):
            pass
    return perf_counter() - began


def jdbc(spark: SparkSession, place: Place, columns: Sequence[str]) -> float:
    """By Spark's own JDBC reader, in as many parts of equal size as Stanchion makes, whose bounds it is given."""
    given = jdbc_options(place)
    properties = {"driver": given["driver"], "fetchsize": str(FETCHED)}
    quarters = _quarters(place)
    began = perf_counter()
    frame = spark.read.jdbc(given["url"], "stanchion_jobs", predicates=quarters, properties=properties)
    _drop(frame.select(*columns) if columns else frame)
    return perf_counter() - began


def stanchion(spark: SparkSession, place: Place, columns: Sequence[str]) -> float:
    """By Spark and Stanchion."""
    began = perf_counter()
    reader = spark.read.format("stanchion").options(url=url_of(place))
    _drop((reader.schema(_SCHEMA) if columns else reader).load())
    return perf_counter() - began


def stanchion_jdbc(spark: SparkSession, place: Place, columns: Sequence[str]) -> float:
    """By Spark's JDBC reader, over the columns that Stanchion gives."""
    began = perf_counter()
    frame = jobs(spark, url_of(place))
    _drop(frame.select(*columns) if columns else frame)
    return perf_counter() - began


def _all(columns: Sequence[str]) -> str:
    return f"select {', '.join(columns) or '*'} from stanchion_jobs"


def _drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _quarters(place: Place) -> list[str]:
    """Return conditions that cut the table into four parts of the same size."""
    with psycopg.connect(place.url) as connection:
        found = connection.execute(
            "select percentile_disc(array[0.25, 0.5, 0.75]) within group (order by id::text) from stanchion_jobs"
        ).fetchone()
    first, middle, last = found[0] if found else ("", "", "")
    return [
        f"id <= '{first}'",
        *(f"id > '{low}' and id <= '{high}'" for low, high in pairwise((first, middle, last))),
        f"id > '{last}'",
    ]
