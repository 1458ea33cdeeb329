"""A pipeline whose stations run on Spark and are killed, and what must become of each item.

raw ─┬─► priced ─┬─► paid     those whose zone is in the table; where the file `together` is, also a Spark station
     │           ├─► tallies  how many items of each zone a batch had
     │           └─► dropped, or dead where they don't fit
     ├─► 2 items of one, to priced
     └─► dropped, or dead at the last attempt
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.cloudpickle

from stanchion import Retry, Send, Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.pipelines import Pipeline
from stanchion.spark.stations import engine as stations
from tests.spark import killing
from tests.spark.places import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PORTION = 4
"""Items that are settled together."""

TOGETHER = "together"
"""A file in the folder of a pipeline in which two stations run in one plan."""

HEARTBEAT = 2.0
"""Seconds between heartbeats of the workers in tasks: what a dead one had goes back after three of these."""

FARES = {"a": 3, "b": 5}
ZONES = "abc"
PART = "spark.sql.execution.arrow.maxRecordsPerBatch"

Item = dict[str, Any]


def pipeline(app: Stanchion, folder: Path) -> Pipeline:
    """Declare the pipeline; the processes that Spark has for it die as `folder` tells them."""
    etl = app.pipeline("fares")

    def raw(item: Item) -> Any:
        match item["n"] % 10:
            case 9:
                return None
            case 8:
                return [Send("priced", {**item, "part": part}) for part in (1, 2)]
            case 7:
                return Send("priced", {**item, "zone": 7, "n": f"many: {item['n']}"})
            case 6:
                raise ValueError("six")
        return Send("priced", {**item, "part": 0})

    def priced(rows: "DataFrame") -> dict[str, "DataFrame"]:
        fares = ", ".join(f"('{zone}', {fare})" for zone, fare in FARES.items())
        table = rows.sparkSession.sql(f"SELECT * FROM VALUES {fares} AS fares(zone, fare)")
        return {"paid": rows.join(table, "zone"), "tallies": rows.groupBy("zone").count()}

    often = Retry.constant(0, jitter=0, max_attempts=10)  # each death of a process is an attempt
    etl.station("raw", to="priced", retry=often)(killing.Doomed(raw, folder))
    schema = "n int, zone string, part int"
    etl.spark_station("priced", to=["paid", "tallies"], schema=schema, max_per_batch=5 * PORTION)(priced)
    if (folder / TOGETHER).exists():
        etl.spark_station("paid", schema="n int, zone string, part int, fare int")(lambda items: items)
    else:
        etl.station("paid")(lambda item: item)
    etl.station("tallies")(lambda item: item)
    return etl


def push(etl: Pipeline, numbers: range, size: int | None = None) -> None:
    """Push items: in chunks of this size, or one by one."""
    items = [{"n": n, "zone": ZONES[n % 3]} for n in numbers]
    if size is None:
        etl.push_many(items)
    else:
        etl.push_chunks(items, size=size)


def run(spark: "SparkSession", url: str, folder: Path) -> None:
    """Run the pipeline on Spark to its end, in small portions."""
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    killing.register(spark)
    spark.conf.set(PART, PORTION)
    doomed: Any = killing.DoomedSession(spark, folder)
    try:
        with opened(url) as app:
            etl = pipeline(app, folder)
            stations.run(etl, spark=doomed, available_now=True, partitions=2, heartbeat=HEARTBEAT)
    finally:
        spark.conf.unset(PART)


def found(etl: Pipeline) -> dict[str, Any]:
    """Return what has become of the items."""

    def results(station: str) -> list[Any]:
        # A chunk that breaks its batch alone is cut; its parts have the results.
        jobs = [job for job in etl.queue(station).find(state="done", limit=10_000) if job.items != 0]
        done: list[Any] = [job.result for job in jobs]
        return [one for found in done for one in (found if isinstance(found, Chunk) else [found])]

    tallies: Counter[str] = Counter()
    for tally in results("tallies"):
        tallies[tally["zone"]] += tally["count"]
    status = {one.station: one for one in etl.status().stations}
    return {
        "paid": Counter((one["n"], one["part"], one["fare"]) for one in results("paid")),
        "tallies": tallies,
        "dead": Counter(json.dumps(job.payload["n"]) for job in etl.dead_letters.find(limit=10_000)),
        "counts": {name: (one.came, one.out, one.dropped, one.dead) for name, one in status.items() if name in COUNTED},
        "left": sum(one.depth.total for one in status.values()),
    }


COUNTED = ("raw", "priced", "paid")


def wanted(numbers: range) -> dict[str, Any]:
    """Return what must become of the items, each once."""
    last = Counter(n % 10 for n in numbers)
    parts = {n: {9: (), 8: (1, 2), 7: (), 6: ()}.get(n % 10, (0,)) for n in numbers}
    fit = [(n, part, ZONES[n % 3]) for n in numbers for part in parts[n]]
    paid = [(n, part, FARES[zone]) for n, part, zone in fit if zone in FARES]
    misfits, came = last[7], len(fit) + last[7]
    return {
        "paid": Counter(paid),
        "tallies": Counter(zone for _, _, zone in fit),
        "dead": Counter(json.dumps(n if n % 10 == 6 else f"many: {n}") for n in numbers if n % 10 in (6, 7)),
        "counts": {
            # An item of which several are made ends at its station.
            "raw": (len(numbers), len(numbers) - last[9] - last[6], last[9], last[6]),
            "priced": (came, len(paid), len(fit) - len(paid), misfits),
            "paid": (len(paid), len(paid), 0, 0),
        },
        "left": 0,
    }


if __name__ == "__main__":
    from tests.spark import killed_stations

    killing.drive(killed_stations.run)
