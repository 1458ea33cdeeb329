"""Orders from a queue of Stanchion, in a pipeline of Spark (Spark Declarative Pipelines).

queue raw    -> cleaned -> queue clean    a bad order goes back to raw, and is a dead letter after its last attempt
queue clean  -> orders                    a streaming table
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

URL = os.environ["DATABASE_URL"]
FIELDS = "customer string, items int"

spark = SparkSession.active()


def jobs(queue: str) -> DataFrame:
    """Return the jobs of a queue as they come."""
    return spark.readStream.format("stanchion").options(url=URL, queue=queue).load()


dp.create_sink("clean", "stanchion", {"url": URL, "stream": "raw", "to": "clean", "errors": "retry"})


@dp.append_flow(target="clean")
def cleaned() -> DataFrame:
    """Pass on orders whose number of items is known."""
    order = F.from_json("payload", FIELDS)
    known = F.coalesce(order["items"] > 0, F.lit(False))
    return jobs("raw").select(
        F.col("id").alias("job_id"),
        "item",
        F.struct(F.upper(order["customer"]).alias("customer"), order["items"].alias("items")).alias("payload"),
        F.when(~known, F.lit("the number of items is missing")).alias("error"),
        F.when(~known, F.lit(0.5)).alias("delay"),
    )


@dp.table
def orders() -> DataFrame:
    """Keep the orders that are clean."""
    return jobs("clean").select(F.from_json("payload", FIELDS).alias("order")).select("order.*")
