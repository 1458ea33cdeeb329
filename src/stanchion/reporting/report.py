"""A report on finished jobs: the figures, and the page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stanchion.app import Stanchion
from stanchion.core.checks import aware, checked_name
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of
from stanchion.reporting.figures import Figures
from stanchion.reporting.finished import finished_jobs
from stanchion.reporting.page import page_of
from stanchion.reporting.tally import Tally
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import shown_url

MOST = 2_000_000
"""Items that Python counts: a minute or two for jobs of one item."""


class TooManyJobs(InvalidInput):
    """More jobs have finished than Python should count."""


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
        return page_of(self.figures, self.title, self.about, self.made)

    def json(self) -> str:
        """Return its figures as JSON."""
        return json.dumps({"title": self.title, "made": self.made.isoformat(), **self.figures}, indent=2)


def report(
    app: Stanchion,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    queues: Sequence[str] = (),
    title: str = "Stanchion report",
    counted: Callable[[int], None] = lambda _jobs: None,
    most: int | None = None,
) -> Report:
    """Report on the finished jobs of a store.

    `since`, `until`: bounds of the finish time; with `since`, the report compares with as long a period before.
    `queues`: only jobs of these. A job that carries a chunk counts as its items. `counted`: called with the number of
    items counted so far. Raises TooManyJobs for more than `most` items, by default 2 million;
    `stanchion.spark.report` takes any number, and archives.
    """
    names = checked_bounds(since, until, queues)
    most = MOST if most is None else most
    tally = Tally()
    for jobs in finished_jobs(app.store, since, until, names):
        tally.add(jobs)
        counted(tally.jobs)
        if tally.jobs > most:
            raise TooManyJobs(
                f"more than {most:,} jobs have finished in this time: choose a shorter one with since=, or fewer "
                "queues; or let Spark count them, with stanchion.spark.report: pip install 'stanchion[spark]'"
            )
    figures = {
        **tally.figures(order_of(app)),
        "before": _before(app, since, until, names, most),
        "now": now_of(app, names),
    }
    return Report(figures, title, ", ".join(about(app, names)), datetime.now(UTC))


def checked_bounds(since: datetime | None, until: datetime | None, queues: Sequence[str]) -> list[str]:
    """Return the names of the queues; raise InvalidInput for an invalid bound or name."""
    for bound, what in ((since, "since"), (until, "until")):
        if bound is not None:
            aware(bound, what)
    return [checked_name(name, "a queue") for name in queues]


def period_before(since: datetime | None, until: datetime | None, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the bounds of as long a period before `since`; None without it."""
    return None if since is None else (since - ((until or now) - since), since)


def before_of(whole: Figures, p95: float | None) -> Figures:
    """Return the report's comparison with the period before."""
    return {**{name: whole[name] for name in ("jobs", "dead", "failures", "first", "last")}, "pickup_p95": p95}


def _before(
    app: Stanchion, since: datetime | None, until: datetime | None, queues: Sequence[str], most: int
) -> Figures | None:
    now = datetime.fromtimestamp(app.store.now() / SECOND, UTC)
    if (bounds := period_before(since, until, now)) is None:
        return None
    tally = Tally()
    for jobs in finished_jobs(app.store, *bounds, queues):
        tally.add(jobs)
        if tally.jobs > most:
            return None
    return before_of(tally.figures()["whole"], tally.p95())


def now_of(app: Stanchion, queues: Sequence[str]) -> Figures | None:
    """Return the queue whose oldest due job has waited longest, in seconds, and how long; None if none waits."""
    store = app.store
    known = store.queues()
    letters = {settings.dead_letter for settings in known}
    names = list(queues) or [settings.name for settings in known if settings.name not in letters]
    now, found = store.now(), store.stats(names, ["next_due"])
    waits = [((now - one.next_due) / SECOND, name) for name, one in found.items() if one.next_due is not None]
    waited, queue = max(waits, default=(-1.0, ""))
    return {"queue": queue, "oldest": waited} if waited >= 0 else None


def order_of(app: Stanchion) -> list[str]:
    """Return the queues of all stations, in the order of their pipelines."""
    return [f"{pipeline}.{station}" for pipeline, one in app.pipelines.items() for station in plan_of(one).stations]


def about(app: Stanchion | None, queues: Sequence[str]) -> list[str]:
    """Return where the jobs are from."""
    return [*([] if app is None else _place(app)), *([f"queues {', '.join(queues)}"] if queues else [])]


def _place(app: Stanchion) -> list[str]:
    """Return the URL of the store, without its password; none if the store was passed open."""
    try:
        return [shown_url(app.url)]
    except InvalidInput:
        return []
