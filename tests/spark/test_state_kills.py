"""Queries with state, whose processes are killed: they find what a batch computation finds, each row once."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Stanchion
from tests.spark import killing
from tests.spark.test_stream_kills import to_the_end, until_done

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BATCH = 20
START = 1_800_000_000
ROW = "n bigint, key string, at timestamp"


def rows(frame: Any) -> "DataFrame":
    from pyspark.sql import functions as f

    parsed: DataFrame = frame.select(f.from_json("payload", ROW).alias("row")).select("row.*")
    return parsed.withWatermark("at", "10 seconds")


def payload(frame: "DataFrame") -> "DataFrame":
    return frame.selectExpr("to_json(struct(*)) as payload")


def sums(frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    return frame.groupBy(f.window("at", "30 seconds")).agg(f.sum("n").alias("sum")).select("window.start", "sum")


def unique(frame: "DataFrame") -> "DataFrame":
    return frame.dropDuplicates(["key"]).select("key")


def joined(frame: "DataFrame", others: "DataFrame") -> "DataFrame":
    others = others.selectExpr("n as m", "key as other", "at as then")
    return frame.join(others, (frame.key == others.other) & (frame.at == others.then)).select("n", "m")


QUERIES: dict[str, Any] = {
    "sums": lambda spark, url, folder: payload(sums(rows(killing.reading(spark, url, folder, "raw", BATCH)))),
    "unique": lambda spark, url, folder: payload(unique(rows(killing.reading(spark, url, folder, "raw", BATCH)))),
    "joined": lambda spark, url, folder: payload(
        joined(*(rows(killing.reading(spark, url, folder, queue, BATCH)) for queue in ("raw", "others")))
    ),
}
"""Queries, which run as streams."""


def wanted(spark: "SparkSession", query: str, items: list[dict[str, Any]]) -> Counter[str]:
    """Return what the query makes of these rows as a batch, of all that is closed by the last."""
    frame = spark.createDataFrame([(json.dumps(item),) for item in items[:-1]], "payload string")
    found = {"sums": sums, "unique": unique, "joined": lambda one: joined(one, rows(frame))}[query](rows(frame))
    return Counter(row.payload for row in payload(found).collect())


def item(n: int) -> dict[str, Any]:
    """Return a row: in order of time, with keys that come three times, some of them in another batch."""
    return {"n": n, "key": f"k{n // 45} {n % 15}", "at": f"2027-01-15T08:{n // 60 % 60:02}:{n % 60:02}Z"}


STEPS = ("after publish", "after latest", "after take", "before publish", "after publish")


@pytest.mark.nightly
@pytest.mark.parametrize("history_ttl", [86_400, 0], ids=["history", "without history"])
@pytest.mark.parametrize("query", QUERIES)
def test_python_processes_die_at_each_step(
    spark: "SparkSession", app: Stanchion, tmp_path: Path, query: str, history_ttl: int
) -> None:
    killing.register(spark)
    app.queue("raw").configure(history_ttl=history_ttl)
    items: list[dict[str, Any]] = []

    def push(count: int) -> None:
        new = [item(len(items) + n) for n in range(count)]
        items.extend(new)
        for queue in ("raw", "others") if query == "joined" else ("raw",):
            app.queue(queue).push_many(new)

    def run() -> None:
        if app.queue("raw").size().ready < 2 * BATCH:
            push(2 * BATCH)
        killing.run(spark, app.url, tmp_path, "append", make=QUERIES[query])

    for step in STEPS:
        killing.kill_at(tmp_path, step)
        until_done(tmp_path, run)
    items.append({**item(0), "key": "last", "at": "2027-01-15T10:00:00Z"})  # closes all windows
    app.queue("raw").push(items[-1])
    to_the_end(lambda: killing.run(spark, app.url, tmp_path, "append", make=QUERIES[query]))
    found = Counter(json.dumps(job.payload, separators=(",", ":")) for job in app.queue("clean").find(limit=10_000))
    del found['{"key":"last"}']
    assert found == wanted(spark, query, items)
    assert app.queue("raw").size().total == app.queue("others").size().total == 0
