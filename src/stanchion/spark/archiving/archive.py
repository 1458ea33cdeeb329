"""Bringing history into an archive, and out of the store.

    store: history ──► Parquet files ──► commit: in the archive ──► deleted from the store

A finish, which is a job's id with its `finished_at`, is in the archive exactly once, wherever a run dies:

* What is archived, the archive alone knows. A run leaves out what the version has that it began from, and its commit
  is refused if another has committed since.
* Until the commit, its files belong to nobody; `compact` deletes them after a week.
* After it, the store deletes exactly those finishes. What a dead run has archived and not purged, the next one meets
  in history and purges. A dead job that was re-driven meanwhile is not touched: when it ends anew, that is another
  finish, and it is archived too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.core.checks import checked_name, seconds_of
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.spark.archiving.done import Archive, Engine
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion.app import Stanchion

MANY = 1_000_000
"""After so many, the rest is for Spark, unless the engine is named."""


def archive(
    app: Stanchion,
    folder: str | Path,
    *,
    queues: Sequence[str] = (),
    older_than: float | timedelta = 3600,
    keep: bool = False,
    compact: bool = False,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
    watch: Callable[[int], None] = lambda _archived: None,
) -> Archive:
    """Bring jobs that finished over `older_than` seconds ago into the archive in a folder, and delete them here.

    `queues`: only of these. `keep`: without the deletion. `compact`: at the end, make few files of many. `engine`:
    "spark" or "local"; left out, this process does it, and Spark from a million jobs on. `watch` is told how many were
    archived so far. To be run again after any error. Raises MissingExtra without the extra `spark`, ArchiveBusy where
    another run has come first, InvalidInput for a folder that holds something else.
    """
    began = time.monotonic()
    place = Path(folder).absolute()
    done = Archive(str(place))
    try:
        from stanchion.spark.archiving.run import Run
        from stanchion.spark.archiving.table import open_archive
    except ModuleNotFoundError:
        raise MissingExtra("spark", "the archive") from None

    open_archive(place)  # refuses a folder that holds something else, before anything is read
    run = Run(app, place, wanted(app, queues, seconds_of(older_than, "older_than")), keep, done, watch)
    if engine == "spark" or run.here(MANY if engine is None and _spark_could(app) else None):
        run.in_spark(spark)
    if compact and (table := open_archive(place)) is not None:
        done.compacted = table.compact()
    done.seconds = time.monotonic() - began
    return done


def wanted(app: Stanchion, queues: Sequence[str], older_than: float) -> Query:
    """Return the part of history that is to be archived, by the store's clock."""
    conditions = [Condition("finished_at", "<=", app.store.now() - int(older_than * SECOND))]
    if queues:
        names = tuple(checked_name(name, "a queue") for name in queues)
        known = {settings.name for settings in app.store.queues()}
        for name in names:
            if name not in known:
                raise InvalidInput(f"there is no queue {name!r}; there are {', '.join(sorted(known)) or 'none'}")
        conditions.append(Condition("queue", "in", names))
    return Query("history", tuple(conditions), order="id", limit=PAGE)


def _spark_could(app: Stanchion) -> bool:
    return app.store.capabilities.processes and find_spec("pyspark") is not None
