"""A report on finished jobs: figures computed by Spark, and a page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput, MissingExtra
from stanchion.reporting.report import Report, about, before_of, checked_bounds, now_of, order_of, period_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion.app import Stanchion


def report(
    app: Stanchion | None,
    folder: str | Path | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    title: str = "Stanchion report",
    spark: SparkSession | None = None,
) -> Report:
    """Report on finished jobs of a store and an archive; a finish in both counts once.

    `app` None: only the archive in `folder`; `folder` None: only the store's history. `since`, `until`: bounds of the
    finish time. `queues`: only jobs of these. Raises MissingExtra without the extra `spark`.
    """
    if app is None and folder is None:
        raise InvalidInput("nothing to report on: name a store, the folder of an archive, or both")
    names = checked_bounds(since, until, queues)
    from stanchion.spark.session import session

    running = spark or session(**_MODEST)
    try:
        from pyspark import StorageLevel

        from stanchion.spark.reporting.figures import figures_of, p95_of, whole_of
        from stanchion.spark.reporting.source import finished_jobs
    except ModuleNotFoundError:
        raise MissingExtra("spark", "the report") from None

    place = None if folder is None else Path(folder).absolute()
    # In memory, a wide file's rows would leave the aggregates of a small heap none.
    jobs = finished_jobs(running, app, place, since, until, names).persist(StorageLevel.DISK_ONLY)
    try:
        figures = figures_of(jobs, [] if app is None else order_of(app))
    finally:
        jobs.unpersist()
    figures["now"] = None if app is None else now_of(app, names)
    figures["before"] = None
    made = datetime.now(UTC)
    if (bounds := period_before(since, until, made)) is not None:
        earlier = finished_jobs(running, app, place, *bounds, names)
        figures["before"] = before_of(whole_of(earlier), p95_of(earlier))
    source, *rest = about(app, names) or [""]
    archive = [] if place is None else [f"archive {place.name}"]
    return Report(figures, title, ", ".join(filter(None, [source, *archive, *rest])), made)


_MODEST = {"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
"""Settings for small results."""
