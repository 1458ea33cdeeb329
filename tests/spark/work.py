"""A read and a write in a session of its own: `python -m tests.spark.work MASTER URL`; it prints what it found."""

import json
import sys
from typing import TYPE_CHECKING

from stanchion.spark import session
from tests.spark.conftest import FAST
from tests.spark.supervision import one_at_a_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def enqueue_and_read(spark: "SparkSession", url: str) -> dict[str, object]:
    """Enqueue 2,000 jobs, and read them back."""
    rows = spark.range(0, 2000, 1, 4).selectExpr("struct(id AS n) AS payload", "cast(id % 7 AS int) AS priority")
    for _ in range(2):
        rows.write.format("stanchion").mode("append").options(url=url, queue="q", writeId="once").save()
    jobs = spark.read.format("stanchion").options(url=url, partitions=4).load().where("priority >= 5")
    found: dict[str, object] = {"jobs": jobs.count(), "distinct": jobs.select("id").distinct().count()}
    try:
        spark.read.format("stanchion").options(url=url, partition=4).load().count()
    except Exception as error:
        found["mistake"] = str(error)
    return found


def main(master: str, url: str) -> None:
    """Do the work in a session of that master."""
    with one_at_a_time():
        spark = session(master, **({} if master.startswith("sc://") else FAST))
    found = enqueue_and_read(spark, url)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
