"""A bulk write whose processes are killed, and its rows."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark import killing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40

FORMS = {
    "plain": ["to_json(struct(id as n)) as payload"],
    "keyed": ["struct(id as n) as payload", "concat('key ', id) as key"],
    "chunks": ["id as n"],
}
"""The columns of rows that Arrow takes without a look at each, of others, and of rows that share jobs."""

ROWS_PER_JOB = 7


def run(spark: "SparkSession", url: str, folder: Path, form: str, name: str) -> None:
    """Write all rows to the queue of this name, which is also that of the write."""
    rows = spark.range(0, ROWS, 1, 2).selectExpr(*FORMS[form])
    options = {"url": url, "queue": name, "writeId": name, "folder": str(folder)}
    if form == "chunks":
        options["rowsPerJob"] = str(ROWS_PER_JOB)
    rows.write.format("killed").mode("append").options(**options).save()


if __name__ == "__main__":
    from tests.spark import killed_writes

    killing.drive(lambda spark, url, folder: killed_writes.run(spark, url, folder, *sys.argv[3:]))
