"""So many new rows as jobs: each function returns the seconds that it takes, from an open connection to the commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from time import perf_counter, time
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import make_url

from benchmarks.contenders import Place
from benchmarks.contenders.base import batches
from benchmarks.spark.engine import FIRST, TEXT, fill, opened, url_of
from stanchion.core.ids import new_ids
from stanchion.stores.records.jobs import UNLANED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "bench"
BLOCK = 10_000
"""Rows that go to the database at once, by hand and by JDBC."""

COLUMNS = (
    *("id", "queue", "lane", "state", "priority", "rank", "run_at", "enqueued_at", "payload"),
    *("attempts", "failures", "max_attempts", "cancel_requested"),
)
"""Those columns of stanchion_jobs that a plain new job has; the others are null or have a default."""


def copy(spark: SparkSession, place: Place, count: int) -> float:
    """By one COPY into the table of jobs, as text."""
    with opened(place), psycopg.connect(place.url) as connection:
        began = perf_counter()
        with connection.cursor().copy(f"copy stanchion_jobs ({', '.join(COLUMNS)}) from stdin") as rows:
            for block in _blocks(count):
                rows.write("".join(["\t".join(map(str, row)) + "\n" for row in block]))
        connection.commit()
        return perf_counter() - began


def insert(spark: SparkSession, place: Place, count: int) -> float:
    """By inserts into the table of jobs in one transaction."""
    with opened(place), closing(sqlite3.connect(place.url)) as connection:
        connection.execute(f"pragma synchronous={'full' if place.durable else 'normal'}")
        began = perf_counter()
        with connection:
            for block in _blocks(count):
                values = ", ".join("?" * len(COLUMNS))
                connection.executemany(f"insert into stanchion_jobs ({', '.join(COLUMNS)}) values ({values})", block)
        return perf_counter() - began


def push_many(spark: SparkSession, place: Place, count: int) -> float:
    """By Stanchion in one process, which commits thousand by thousand."""
    with opened(place) as app:
        began = perf_counter()
        fill(app, QUEUE, count)
        return perf_counter() - began


def jdbc(spark: SparkSession, place: Place, count: int) -> float:
    """By Spark's own JDBC writer: a transaction for each task, so not all or nothing."""
    number = "lower(lpad(hex(id), {}, '0'))"
    rows = spark.range(count).selectExpr(
        f"concat({number.format(8)}, '-0000-7000-8000-', {number.format(12)}) as id",
        f"'{QUEUE}' as queue",
        f"{UNLANED} as lane",
        "'queued' as state",
        *("0 as priority", "0 as rank"),
        *(f"unix_micros(now()) as {column}" for column in ("run_at", "enqueued_at")),
        f"to_json({_payload()}) as payload",
        *("0 as attempts", "0 as failures", "25 as max_attempts", "false as cancel_requested"),
    )
    with opened(place):
        began = perf_counter()
        options = jdbc_options(place) | {"dbtable": "stanchion_jobs", "batchsize": str(BLOCK)}
        rows.write.format("jdbc").mode("append").options(**options).save()
        return perf_counter() - began


def stanchion(spark: SparkSession, place: Place, count: int) -> float:
    """By Spark and Stanchion, all or nothing."""
    with opened(place):
        began = perf_counter()
        rows: DataFrame = spark.range(count).selectExpr(f"to_json({_payload()}) as payload")
        rows.write.format("stanchion").mode("append").options(url=url_of(place), queue=QUEUE).save()
        return perf_counter() - began


def chunks(spark: SparkSession, place: Place, count: int, queue: str = QUEUE) -> float:
    """By Spark and Stanchion, all or nothing, as jobs of many rows."""
    with opened(place):
        began = perf_counter()
        rows: DataFrame = spark.range(count).selectExpr(f"{_payload()} as payload").select("payload.*")
        options = {"url": url_of(place), "queue": queue, "rowsPerJob": str(BLOCK)}
        rows.write.format("stanchion").mode("append").options(**options).save()
        return perf_counter() - began


def nowhere(spark: SparkSession, place: Place, count: int) -> float:
    """Spark's own part of that, the floor: the same rows go through Python's processes, and are dropped."""
    began = perf_counter()
    rows = spark.range(count).selectExpr(f"{_payload()} as payload").select("payload.*")
    rows.mapInArrow(lambda batches: (batch.slice(0, 0) for batch in batches), rows.schema).write.format("noop").mode(
        "append"
    ).save()
    return perf_counter() - began


def jdbc_options(place: Place) -> dict[str, str]:
    """Return what Spark's JDBC takes to connect; ids are given as text, and batches go in one statement."""
    url = make_url(place.url)
    settings = f"reWriteBatchedInserts=true&stringtype=unspecified&user={url.username}&password={url.password or ''}"
    return {
        "url": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}?{settings}",
        "driver": "org.postgresql.Driver",
    }


def _payload() -> str:
    return f"named_struct('n', id + {FIRST}, 'text', '{TEXT}')"


def _blocks(count: int) -> Iterator[list[tuple[object, ...]]]:
    """Yield the rows of plain new jobs, which is a part of the work."""
    for numbers in batches(0, count, BLOCK):
        now = int(time() * 1e6)
        yield [
            (job, QUEUE, 0, "queued", 0, 0, now, now, f'{{"n":{FIRST + n},"text":"{TEXT}"}}', 0, 0, 25, False)
            for job, n in zip(new_ids(len(numbers)), numbers, strict=True)
        ]
