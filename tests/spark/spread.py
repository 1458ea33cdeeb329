"""What a cluster is for, in a session of its own: `python -m tests.spark.spread MASTER URL FOLDER`.

Enqueue and read, a stream from queue to queue, and a pipeline; it prints what it found, and how many tasks each
executor has done for each of these (nothing over Spark Connect, which does not tell).
"""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.utils import is_remote

from stanchion import Stanchion
from stanchion.spark import session
from stanchion.spark.stations import engine as stations
from tests.spark.conftest import FAST
from tests.spark.supervision import one_at_a_time
from tests.spark.work import enqueue_and_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ITEMS = 60


def stream(spark: "SparkSession", url: str, folder: str) -> None:
    """Send the jobs of `q` to `next`, as new ones, batch by batch."""
    frame = spark.readStream.format("stanchion").options(url=url, queue="q", maxRecordsPerBatch=1000).load()
    writer = frame.select("payload").writeStream.format("stanchion").option("checkpointLocation", folder)
    query = writer.options(url=url, ackStream="q", mode="append", to="next").trigger(availableNow=True).start()
    query.awaitTermination()


def pipeline(spark: "SparkSession", url: str) -> None:
    """Bring items through a plain station, and one that joins them with a table."""
    app = Stanchion(url)
    etl = app.pipeline("etl")

    @etl.station("raw", to="named")
    def raw(item: dict[str, Any]) -> dict[str, Any] | None:
        return None if item["n"] % 10 == 9 else item

    @etl.spark_station("named", schema="n int")
    def named(items: "DataFrame") -> "DataFrame":
        names = items.sparkSession.createDataFrame([(0, "even"), (1, "odd")], "rest int, name string")
        return items.join(names, items.n % 2 == names.rest).drop("rest")

    etl.push_many([{"n": n} for n in range(ITEMS)])
    stations.run(etl, spark=spark, available_now=True)
    app.close()


def tasks_done(spark: "SparkSession") -> dict[str, int]:
    """Return how many tasks each executor has finished."""
    if is_remote():
        return {}
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return dict(_tasks(context.statusStore().executorList(False)))


def _tasks(executors: Any) -> Iterator[tuple[str, int]]:
    for at in range(executors.size()):
        one = executors.apply(at)
        if one.id() != "driver":
            yield one.id(), one.completedTasks()


def main(master: str, url: str, folder: str) -> None:
    """Do all of it, one after the other."""
    with one_at_a_time():
        spark = session(master, **({} if master.startswith("sc://") else FAST))
    found: dict[str, Any] = {"work": enqueue_and_read(spark, url)}
    done = [tasks_done(spark)]
    for step in (lambda: stream(spark, url, folder), lambda: pipeline(spark, url)):
        step()
        done.append(tasks_done(spark))
    spark.stop()
    found["tasks"] = [
        {one: after[one] - before.get(one, 0) for one in after}
        for before, after in zip([{}, *done], done, strict=False)
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
