"""Jobs that can't be read, in streams and pipelines on Spark: these are dead, and the others are processed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Stanchion
from stanchion.jobs.job import JobState
from stanchion.spark.stations import engine as stations
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from tests.spark.supervision import supervised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 1200
"""More than are read row by row."""


def spoil(path: Path, queue: str) -> list[str]:
    """Write Latin-1 into every hundredth job of a queue, as another program does; return their ids."""
    with closing(sqlite3.connect(path)) as connection, connection:
        query = "SELECT id FROM stanchion_jobs WHERE queue = ? ORDER BY id"
        odd = [job for (job,) in connection.execute(query, (queue,))][::100]
        change = (
            """UPDATE stanchion_jobs SET payload = CAST('{"city": "M' || x'fc' || 'nchen"}' AS TEXT) WHERE id = ?"""
        )
        connection.executemany(change, [(job,) for job in odd])
    return odd


TOLD = "the job has text that is not UTF-8, in payload"


def test_a_stream_has_the_other_jobs(spark: SparkSession, app: Stanchion, tmp_path: Path) -> None:
    app.setup()
    app.queue("raw").push_many([{"n": n} for n in range(COUNT)])
    odd = spoil(tmp_path / "jobs.db", "raw")
    reads: dict[str, Any] = {"url": app.url, "queue": "raw", "partitions": 1}
    frame = spark.readStream.format("stanchion").options(**reads).load().selectExpr("id as job_id", "payload")
    writes: dict[str, Any] = {
        "url": app.url,
        "stream": "raw",
        "mode": "move",
        "to": "clean",
        "checkpointLocation": str(tmp_path / "c"),
    }
    query = frame.writeStream.format("stanchion").options(**writes).trigger(availableNow=True).start()
    supervised(query.awaitTermination)
    assert len(odd) == COUNT // 100
    assert sorted(job.payload["n"] for job in app.queue("clean").find(limit=2 * COUNT)) == [
        n for n in range(COUNT) if n % 100
    ]
    rows = list(app.store.fetch(odd).values())
    assert len(rows) == len(odd)
    assert all(row.state == JobState.DEAD and entries_of(row)[-1]["error"].startswith(TOLD) for row in rows)


@pytest.mark.nightly
def test_a_pipeline_has_the_other_items(spark: SparkSession, app: Stanchion, tmp_path: Path) -> None:
    etl = app.pipeline("towns")

    @etl.station("towns", to="done")
    def towns(item: dict[str, Any]) -> dict[str, Any]:
        return item

    @etl.station("done")
    def done(item: dict[str, Any]) -> dict[str, Any]:
        return item

    etl.push_many([{"n": n} for n in range(COUNT)])
    odd = spoil(tmp_path / "jobs.db", etl.queue("towns").name)
    stations.run(etl, spark=spark, available_now=True)
    found = [job.result["n"] for job in etl.queue("done").find(state="done", limit=2 * COUNT)]
    assert sorted(found) == [n for n in range(COUNT) if n % 100]
    dead = {job.id: job.errors[-1]["error"] for job in etl.dead_letters.find()}
    assert sorted(dead) == odd
    assert all(error.startswith(TOLD) for error in dead.values())
