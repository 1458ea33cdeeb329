"""Moving history from the store to an archive.

    store: history ──► Parquet files ──► commit: in the archive ──► deleted from the store

A finish is a job's id with its `finished_at`. It is in the archive exactly once, wherever a run dies:

* Only the archive knows what is archived. A run skips the finishes in the version it started from, and its commit is
  refused if another run has committed since.
* Before the commit, the new files belong to no version; `compact` deletes orphaned files after a week.
* After the commit, the store deletes exactly those finishes. If a run dies before it purges, the next one finds the
  archived finishes in history and purges them. A dead job that was retried meanwhile is not deleted: its next finish
  is a new one, and is archived too.
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
"""Jobs after which Spark archives the rest, unless the engine is given."""


def archive(
    app: Stanchion,
    folder: str | Path,
    *,
    queues: Sequence[str] = (),
    older_than: float | timedelta = 3600,
    keep: bool = False,
    whole: bool = False,
    typed: bool = False,
    compact: bool = False,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
    watch: Callable[[int], None] = lambda _archived: None,
) -> Archive:
    """Move jobs that finished over `older_than` seconds ago from the store to the archive in a folder.

    `queues`: only jobs of these. `keep`: do not delete them from the store; then a run reads only jobs finished since
    the last one, or, with `whole`, all of history again. `typed`: add payloads of queues with a schema as struct
    columns. `compact`: merge small files at the end.

    `engine`: "spark" or "local"; by default this process does it, and Spark from a million jobs on. `watch` is called
    with the number of jobs archived so far. Run it again after any error. Raises MissingExtra without the extra
    `spark`, ArchiveBusy if another run was faster, InvalidInput as `wanted` does.
    """
    began = time.monotonic()
    place = Path(folder).absolute()
    done = Archive(str(place))
    query = wanted(app, place, queues, seconds_of(older_than, "older_than"))
    from stanchion.spark.archiving.run import Run
    from stanchion.spark.archiving.table import open_archive
    from stanchion.spark.archiving.typed import TypedColumns
    from stanchion.spark.archiving.watermark import Watermark

    columns, watermark = TypedColumns.of(app, queues) if typed else TypedColumns(), Watermark(app, queues)
    if keep and not whole:
        query = watermark.newer(query, open_archive(place))
    run = Run(app, place, query, columns, done, watch, keep=keep)
    if engine == "spark" or run.here(MANY if engine is None and _spark_could(app) else None):
        run.in_spark(spark)
    if keep and (table := open_archive(place)) is not None:
        watermark.move(query, table)
    if compact and (table := open_archive(place)) is not None:
        done.compacted = table.compact()
    done.seconds = time.monotonic() - began
    return done


def wanted(app: Stanchion, folder: Path, queues: Sequence[str], older_than: float) -> Query:
    """Return the query for the history to archive, by the store's clock.

    Raises InvalidInput for a queue that is not known, and if the folder contains something else.
    """
    try:
        from stanchion.spark.archiving.table import open_archive
    except ModuleNotFoundError:
        raise MissingExtra("spark", "the archive") from None
    open_archive(folder)
    conditions = [Condition("finished_at", "<=", app.store.now() - int(older_than * SECOND))]
    if queues:
        names = tuple(checked_name(name, "a queue") for name in queues)
        known = {settings.name for settings in app.store.queues()}
        for name in names:
            if name not in known:
                raise InvalidInput(f"there is no queue {name!r} (known: {', '.join(sorted(known)) or 'none'})")
        conditions.append(Condition("queue", "in", names))
    return Query("history", tuple(conditions), order="id", limit=PAGE)


def _spark_could(app: Stanchion) -> bool:
    return app.store.capabilities.processes and find_spec("pyspark") is not None
