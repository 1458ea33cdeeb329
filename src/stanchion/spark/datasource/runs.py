"""The query, run and micro-batch that a task belongs to."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark import TaskContext

from stanchion.errors import StanchionError


def this_run() -> str | None:
    """Return an id shared by exactly the tasks of one attempt at one micro-batch; None if Spark does not provide it.

    It does not in jobs started by a foreachBatch function.
    """
    job, batch = _property("spark.jobGroup.id"), _property("streaming.sql.batchId")
    return None if job is None or batch is None else f"{job}:{batch}"


def this_batch() -> str:
    """Return an id shared by all attempts at one micro-batch of a query, even after restarts."""
    query, batch = _property("sql.streaming.queryId"), _property("streaming.sql.batchId")
    if query is None or batch is None:
        raise StanchionError(
            "Spark does not report which micro-batch this is; write streams by writeStream of PySpark 4.2"
        )
    return f"{query}:{batch}"


FIRST, CARRIERS = 8, 64
"""Number of tasks of a stage that may send many jobs in their messages, and number that may send some.

Spark limits the size of all messages together.
"""


def carried_share() -> float:
    """Return which share of the jobs that one of the first tasks may send to the driver in its message this one may."""
    task = TaskContext.get()
    if task is None or task.partitionId() < FIRST:
        return 1.0
    return 1 / 8 if task.partitionId() < CARRIERS else 0.0


def has_state(checkpoint: str | None) -> bool | None:
    """Return whether the query of a checkpoint is stateful, with windows or joins; None if it can't be seen from here.

    The checkpoint has a folder for state from the first batch on, before any row of it is written.
    """
    if checkpoint is None:
        return None
    address = urlsplit(checkpoint)
    if address.scheme not in ("", "file"):
        return None
    folder = Path(unquote(address.path) if address.scheme else checkpoint)
    return (folder / "state").is_dir() if (folder / "offsets").is_dir() else None


def _property(name: str) -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(name)
