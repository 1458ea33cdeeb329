"""Which run of which query a task is a part of."""

from __future__ import annotations

from pyspark import TaskContext

from stanchion.errors import StanchionError


def this_run() -> str | None:
    """Return what all tasks of one attempt at one micro-batch share, and no others; None where Spark doesn't tell.

    It doesn't in jobs that a function of foreachBatch starts.
    """
    job, batch = _told("spark.jobGroup.id"), _told("streaming.sql.batchId")
    return None if job is None or batch is None else f"{job}:{batch}"


def this_batch() -> str:
    """Return what all attempts at one micro-batch of a query share, after restarts too."""
    query, batch = _told("sql.streaming.queryId"), _told("streaming.sql.batchId")
    if query is None or batch is None:
        raise StanchionError(
            "Spark does not tell which micro-batch this is; write streams by writeStream of PySpark 4.2"
        )
    return f"{query}:{batch}"


def _told(name: str) -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(name)
