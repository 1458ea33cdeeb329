"""A report on finished jobs: figures computed by Spark, and a page that shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.core.checks import checked_name
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.stores.registry import shown_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stanchion.app import Stanchion


@dataclass(frozen=True)
class Report:
    """A report. `figures`: all numbers, ready for JSON; times in seconds."""

    figures: dict[str, Any]
    title: str
    about: str
    made: datetime

    @property
    def jobs(self) -> int:
        """The number of finished jobs in it."""
        return int(self.figures["whole"]["jobs"])

    def html(self) -> str:
        """Return it as one self-contained HTML page."""
        from stanchion.spark.reporting.page import page_of

        return page_of(self.figures, self.title, self.about, self.made)

    def json(self) -> str:
        """Return its figures as JSON."""
        return json.dumps({"title": self.title, "made": self.made.isoformat(), **self.figures}, indent=2)


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
    for bound in (since, until):
        if bound is not None and bound.tzinfo is None:
            raise InvalidInput(f"{bound!r} has no time zone; pass an aware datetime")
    names = [checked_name(name, "a queue") for name in queues]
    from stanchion.spark.session import session

    running = spark or session(**_MODEST)
    try:
        from stanchion.spark.reporting.figures import figures_of
        from stanchion.spark.reporting.source import finished_jobs
    except ModuleNotFoundError:
        raise MissingExtra("spark", "the report") from None

    place = None if folder is None else Path(folder).absolute()
    jobs = finished_jobs(running, app, place, since, until, names).persist()
    try:
        figures = figures_of(jobs)
    finally:
        jobs.unpersist()
    return Report(figures, title, _about(app, place, names), datetime.now(UTC))


_MODEST = {"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
"""Settings for small results."""


def _about(app: Stanchion | None, folder: Path | None, queues: Sequence[str]) -> str:
    parts = [] if app is None else [shown_url(app.url)]
    parts += [] if folder is None else [f"archive {folder.name}"]
    parts += [f"queues {', '.join(queues)}"] if queues else []
    return ", ".join(parts)
