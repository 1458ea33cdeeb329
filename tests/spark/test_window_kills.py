"""Stations with a watermark, whose Spark processes are killed: they make what a batch computation makes, once each."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from stanchion import Pipeline, Stanchion
from stanchion.spark.stations import engine, queries, stateful
from stanchion.tasks.inline import drained
from tests.spark import killing
from tests.spark.test_state_kills import BATCH, ROW, item, sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3600)]

STEPS = ("after publish", "after latest", "after take", "before publish", "after parts", "after publish")


def unique(frame: "DataFrame") -> "DataFrame":
    return frame.dropDuplicatesWithinWatermark(["key"]).select("key")


WORK = {"sums": (sums, "10 seconds"), "unique": (unique, "1 minute")}
"""The functions of the station, and its delays: a key comes again within half a minute."""


def declared(app: Stanchion, folder: Path, query: str) -> Pipeline:
    etl, (work, delay) = app.pipeline("rides"), WORK[query]
    given: Any = {"watermark": ("at", delay), "late": "late", "to": "made", "max_per_batch": BATCH}
    etl.spark_station("raw", schema=ROW, checkpoint=folder / "checkpoint", **given)(work)
    etl.station("made")(lambda item: item)
    etl.station("late")(lambda item: item["n"])
    return etl


def run(spark: "SparkSession", etl: Pipeline, folder: Path) -> None:
    """Run the pipeline to its end; the processes of the first station's query die as `folder` tells them."""

    def deadly(*given: Any) -> Any:
        return stateful.writer_of(*given).format("killed").option("folder", str(folder))

    session: Any = killing.DoomedSession(spark, folder)
    with patch.object(queries, "writer_of", deadly):
        engine.run(etl, ["raw"], spark=session, available_now=True, partitions=2)
    drained(etl.context, ["rides.made", "rides.late"])


@pytest.mark.parametrize("query", WORK)
def test_python_processes_die_at_each_step(spark: "SparkSession", app: Stanchion, tmp_path: Path, query: str) -> None:
    killing.register(spark)
    etl, items = declared(app, tmp_path, query), list[dict[str, Any]]()
    late = 0
    for step in STEPS:
        killing.kill_at(tmp_path, step)
        while not (tmp_path / "done").exists():
            new = [item(len(items) + n) for n in range(2 * BATCH)]
            items += new
            etl.push_many(new)
            run(spark, etl, tmp_path)
        late += 1
        etl.push({"n": -late, "key": "late", "at": "2027-01-14T08:00:00Z"})  # far behind the watermark of earlier runs
    last = {**item(0), "key": "last", "at": "2027-01-15T10:00:00Z"}  # closes all windows
    etl.push(last)
    run(spark, etl, tmp_path)
    made = Counter(
        json.dumps(job.result, separators=(",", ":")) for job in etl.queue("made").find(state="done", limit=10_000)
    )
    del made['{"key":"last"}']
    assert made == wanted(spark, query, items)
    assert sorted(job.result for job in etl.queue("late").find(state="done")) == list(range(-late, 0))
    assert all(one.depth.total == 0 for one in etl.status().stations)
    assert not etl.dead_letters.find()


def wanted(spark: "SparkSession", query: str, items: list[dict[str, Any]]) -> Counter[str]:
    """Return what the query makes of these rows in one batch."""
    if query == "unique":  # the same keys come within the delay
        return Counter(json.dumps({"key": key}, separators=(",", ":")) for key in {one["key"] for one in items})
    from pyspark.sql import functions as f

    frame = spark.createDataFrame([(json.dumps(one),) for one in items], "payload string")
    rows = frame.select(f.from_json("payload", ROW).alias("row")).select("row.*")
    return Counter(row.payload for row in sums(rows).selectExpr("to_json(struct(*)) as payload").collect())
