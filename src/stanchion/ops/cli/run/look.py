"""The stations of a pipeline as `pipeline status` shows them."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.verdict import alerts_of
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.core.times import moment
from stanchion.jobs.job import JobState
from stanchion.ops.cli.console.human import age, duration, one_line, rate
from stanchion.ops.cli.console.output import STATE_STYLES, Cell, Column, count_cell, fitted
from stanchion.ops.job_json import last_error
from stanchion.ops.reads.expectations import Expected, read_expectations
from stanchion.ops.reads.pipelines import Known, Station, read_dead, read_pipeline, stations
from stanchion.ops.reads.track import Track
from stanchion.ops.words import plural
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.status import per_job
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.rollups import point_of

COLUMNS = [
    Column("STATION", shrinks=True, keeps_ends=True),
    Column("DEPTH", right=True),
    Column("ITEMS/JOB", right=True, from_width=130),
    Column("RUNNING", right=True, from_width=90),
    Column("DELAYED", right=True, from_width=130),
    Column("WAITING", right=True, from_width=130),
    Column("IN", right=True),
    Column("OUT", right=True),
    Column("DROPPED", right=True, from_width=130),
    Column("RETRIED", right=True, from_width=75),
    Column("DEAD", right=True),
    Column("RATE/S", right=True),
    Column("OLDEST", right=True),
    Column("PICK-UP P95", right=True, from_width=140),
    Column("RUN P95", right=True, from_width=120),
    Column(""),
    Column("ERROR", shrinks=True, keeps=32, from_width=110),
]


class Look:
    """The figures of a pipeline at the last reading, with rates since the previous one."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._app, self._known = app_of(context_of(pipeline)), Known(plan_of(pipeline).record, "code")
        self._tracks: dict[str, Track] = {}
        self.at, self.dead_letters = 0, 0
        self.found: list[Station] = []
        self.expectations: list[Expected] = []

    def again(self) -> None:
        """Read the store. Raises StoreUnavailable."""
        store = context_of(self._app).fresh_store
        seen = read_pipeline(store, self._known)
        dead = read_dead(self._app, store, self._known, seen, last_error)
        for settings, stats in seen.queues:
            track = self._tracks.setdefault(settings.name, Track())
            track.add(point_of(seen.at, stats.items, stats.totals, 0.0))
        self.at, self.dead_letters = seen.at, sum(seen.letters.lying.values())
        alerts = alerts_of(seen, Thresholds().changed(seen.limits))
        self.found = stations(self._known, seen, self._tracks, dead, alerts)
        self.expectations = read_expectations(store, self._known)

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "pipeline": self._known.record.name,
            "dead_letters": self.dead_letters,
            "stations": [self._station_json(one) for one in self.found],
            "expectations": [one.as_json() for one in self.expectations],
        }

    def rows(self) -> list[list[Cell]]:
        """Return a row of the table for each station."""
        return [self._row(one) for one in self.found]

    def unmet(self) -> list[str]:
        """Return a line for each expectation that items did not meet."""
        return [
            f"{one.station}: {plural(one.failed, 'item')} failed {one.condition!r}, the last "
            f"{age((self.at - one.last) / SECOND)} ago ({one.on_fail or 'no longer expected'})"
            for one in self.expectations
            if one.last is not None
        ]

    def frame(self, width: int, trouble: str) -> RenderableType:
        """Return a screen of this width. `trouble`: why the last look failed."""
        heading = Text.assemble(
            (self._known.record.name, "bold"), (f"  {moment(self.at):%H:%M:%S} UTC", "bright_black")
        )
        style = STATE_STYLES[JobState.DEAD] if self.dead_letters else ""
        parts = [heading, Text(), fitted(COLUMNS, self.rows(), width)]
        parts.append(Text(f"\n{self.dead_letters:,} dead letters", style))
        parts += [Text(line, "yellow") for line in self.unmet()]
        if trouble:
            parts.append(Text(one_line(trouble), "bold red"))
        return Group(*parts)

    def _rate(self, one: Station) -> float | None:
        """Return the items per second that the station finished since the previous reading."""
        rates = self._tracks[one.queue].rates
        return None if rates is None else rates.done

    def _station_json(self, one: Station) -> dict[str, object]:
        return {
            "station": one.name,
            "paused": one.paused,
            "depth": one.sizes._asdict(),
            "jobs": one.jobs._asdict(),
            **one.passed._asdict(),
            "oldest": one.lag,
            "rate": self._rate(one),
            "engine": one.engine,
            "trouble": one.trouble,
            "starved": one.starved,
            "retrying": one.retrying,
            "failed": one.failed,
            "error": one.error,
            "last_5_min": None if one.times is None else one.times.as_json(),
        }

    def _row(self, one: Station) -> list[Cell]:
        sizes, items, per_second = one.sizes, one.passed, self._rate(one)
        return [
            one.name,
            count_cell(sizes.total, STATE_STYLES[JobState.READY]),
            "" if (carried := per_job(sizes, one.jobs)) is None else f"{carried:,.0f}",
            count_cell(sizes.running, STATE_STYLES[JobState.RUNNING]),
            count_cell(sizes.scheduled, STATE_STYLES[JobState.SCHEDULED]),
            count_cell(sizes.waiting, STATE_STYLES[JobState.WAITING]),
            count_cell(items.came),
            count_cell(items.out, STATE_STYLES[JobState.DONE]),
            count_cell(items.dropped),
            count_cell(items.retried, "yellow"),
            count_cell(items.dead, STATE_STYLES[JobState.DEAD]),
            Text(rate(per_second), "green" if per_second else "bright_black"),
            age(one.lag) if one.lag else "",
            duration(None if one.times is None else one.times.delay(95)),
            duration(None if one.times is None else one.times.run(95)),
            _state(one),
            Text(one_line(one.error), "red"),
        ]


def _state(one: Station) -> Text:
    """Return what keeps the items, in a word."""
    if one.paused:
        return Text("paused", "yellow")
    return Text(one.trouble, "yellow" if one.trouble in ("late", "slow") else "bold red") if one.trouble else Text("")
