"""Which run of which query a task is a part of."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

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


def has_state(checkpoint: str | None) -> bool | None:
    """Tell whether the query of a checkpoint has state, such as windows or joins; None if it can't be seen from here.

    Its folder is asked, which has one for state from the first batch on, before any row of it is written.
    """
    if checkpoint is None:
        return None
    address = urlsplit(checkpoint)
    if address.scheme not in ("", "file"):
        return None
    folder = Path(unquote(address.path) if address.scheme else checkpoint)
    return (folder / "state").is_dir() if (folder / "offsets").is_dir() else None


def _told(name: str) -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(name)
