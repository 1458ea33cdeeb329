"""A pipeline whose first station has a watermark and is killed on Spark, and what it must have made of its items."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from stanchion import Pipeline, Stanchion
from stanchion.context import context_of
from stanchion.spark.stations import engine, queries, stateful
from stanchion.tasks.testing.inline import drained
from tests.spark import killing
from tests.spark.places import opened
from tests.spark.test_state_kills import BATCH, ROW, item, sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    drained(context_of(etl), ["rides.made", "rides.late"])


class Rides:
    """What is pushed to the pipeline, and what it must become."""

    def __init__(self, app: Stanchion, folder: Path, query: str) -> None:
        self.etl, self.query = declared(app, folder, query), query
        self.items: list[dict[str, Any]] = []
        self.late = 0

    def push(self) -> None:
        """Push two batches of items in the order of time."""
        new = [item(len(self.items) + n) for n in range(2 * BATCH)]
        self.items += new
        self.etl.push_many(new)

    def push_late(self) -> None:
        """Push an item far behind the watermark of earlier runs."""
        self.late += 1
        self.etl.push({"n": -self.late, "key": "late", "at": "2027-01-14T08:00:00Z"})

    def push_last(self) -> None:
        """Push the item that closes all windows."""
        self.etl.push({**item(0), "key": "last", "at": "2027-01-15T10:00:00Z"})

    def check(self, spark: "SparkSession") -> None:
        """Compare what was made with a batch computation of the same items; each is there once."""
        found = self.etl.queue("made").find(state="done", limit=10_000)
        made = Counter(json.dumps(job.result, separators=(",", ":")) for job in found)
        del made['{"key":"last"}']
        wanted = self._wanted(spark)
        assert made == wanted, f"too much: {made - wanted}, too little: {wanted - made}"
        late = sorted(job.result for job in self.etl.queue("late").find(state="done"))
        assert late == list(range(-self.late, 0))
        assert all(one.depth.total == 0 for one in self.etl.status().stations)
        assert not self.etl.dead_letters.find()

    def _wanted(self, spark: "SparkSession") -> Counter[str]:
        """Return what the query makes of these items in one batch."""
        if self.query == "unique":  # the same keys come within the delay
            return Counter(
                json.dumps({"key": key}, separators=(",", ":")) for key in {one["key"] for one in self.items}
            )
        from pyspark.sql import functions as f

        frame = spark.createDataFrame([(json.dumps(one),) for one in self.items], "payload string")
        rows = frame.select(f.from_json("payload", ROW).alias("row")).select("row.*")
        return Counter(row.payload for row in sums(rows).selectExpr("to_json(struct(*)) as payload").collect())


def work(spark: "SparkSession", url: str, folder: Path) -> None:
    """Run the pipeline of a folder in a driver of its own."""
    with opened(url) as app:
        run(spark, declared(app, folder, "sums"), folder)


if __name__ == "__main__":
    from tests.spark import killed_windows

    killing.drive(killed_windows.work)
