"""The first page: problems that need a person now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.responses import Response

from stanchion.alerts.groups import Group, grouped
from stanchion.alerts.records import Alert, BandFigures, QueueFigures
from stanchion.alerts.rules.jobs import died_of_late
from stanchion.alerts.thresholds import Levels
from stanchion.alerts.verdict import by_queue
from stanchion.core.service_levels import BANDS
from stanchion.ops.audit import Entry
from stanchion.ops.reads.track import Rates
from stanchion.ops.web.acts import owners as acts
from stanchion.ops.web.live.sampler import Sample, Sampler
from stanchion.ops.web.pages import past
from stanchion.ops.web.show.alerts import Shown, Together, together, with_links
from stanchion.ops.web.show.runbook import link_of
from stanchion.ops.web.visit import Visit
from stanchion.ops.words import plural
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Sizes
from stanchion.telemetry.rollups import ALL
from stanchion.telemetry.times import Times, by_band

QUEUES_SHOWN = 12
WHOLE = 3
"""Alerts that are shown with their evidence and acts; the others have a line each."""

CHANGES_SHOWN = 8
DAY = 86_400 * SECOND

_MANY = ("Two", "Three", "Four", "Five", "Six", "Seven")
_WORDS = ("Nothing needs", "One thing needs", *(f"{one} things need" for one in _MANY))


class BandRow(NamedTuple):
    """A band against its limit; `percent` of it, and of the bar, whose middle is the limit.

    `delay`: the 95th percentile of the pick-up delay of five minutes; None where no worker reports it.
    """

    name: str
    priorities: str
    figures: BandFigures
    levels: Levels
    percent: float
    bar: float
    delay: float | None


class QueueRow(NamedTuple):
    """A queue, its alert if it has one, and its rates if they are known yet.

    `failed`: the share of the attempts of five minutes that failed; `dead`: jobs that have died within a day; each None
    if that is not known. `fails`: so many fail that there is an alert.
    """

    name: str
    size: Sizes
    lag: float
    percent: float
    paused: bool
    alert: Alert | None
    rates: Rates | None
    failed: float | None
    dead: int | None
    fails: bool


def show(visit: Visit) -> Response:
    """Show the verdict, then its evidence."""
    sample, sampler = visit.site.sampler.latest(), visit.site.sampler
    groups, more = grouped(sample.firing)
    changes, _ = visit.part("acts", lambda: visit.site.audit.newest(CHANGES_SHOWN)) or ([], None)
    return visit.page(
        "overview.html",
        headline(len(sample.firing)),
        lede=_lede(sample),
        alerts=[_line(one, sample.seen.owners) for one in groups],
        whole=WHOLE,
        more=more,
        bands=_bands(sample),
        plots=past.asked(visit, ALL),
        queues=_queues(sample, sampler)[:QUEUES_SHOWN],
        dead_since=sampler.day.since(sample.seen.at),
        known=len(sample.monitor.queues),
        exact=sample.monitor.exact,
        read_at=sample.monitor.at,
        changes=[one for one in changes if one.at > visit.now - DAY][:CHANGES_SHOWN],
        told=_told,
        runbook_of=link_of,
    )


def headline(alerts: int) -> str:
    """Return the verdict: `Three things need a person`."""
    words = _WORDS[alerts] if alerts < len(_WORDS) else f"{plural(alerts, 'thing')} need"
    return f"{words} a person"


def set_owner(visit: Visit) -> Response:
    """Record who is handling an alert; the alert stays visible."""
    acts.set_owner(visit, visit.form.get("key", ""))
    return visit.done(visit.back(), "The alert shows your name for 4 hours, and stays until its cause ends")


def _line(group: Group, owners: Mapping[str, tuple[str, int]]) -> Shown | Together:
    """Return an alert as the page shows it, or several of one rule as one line."""
    return with_links(group.first, owners.get(group.first.key)) if len(group.alerts) == 1 else together(group, owners)


def _lede(sample: Sample) -> str:
    monitor = sample.monitor
    troubled = by_queue(sample.firing, sample.seen)
    rest = sum(one.queue not in troubled for one in monitor.queues)
    if not monitor.queues:
        return "No job has been pushed yet."
    other = "The other " if troubled else ""
    if rest == 1:
        return f"{other}queue keeps its service levels." if other else "The queue keeps its service levels."
    return f"{other}{plural(rest, 'queue')} keep their service levels." if rest else ""


def _bands(sample: Sample) -> list[BandRow]:
    rows, above, times = [], None, by_band(sample.seen.workers, sample.seen.at)
    for band, figures in zip(BANDS, sample.monitor.bands, strict=False):
        levels = sample.limits.levels[figures.band]
        percent = 100 * figures.max_age / levels.max_age
        priorities = f"{band.least} and up" if above is None else f"{band.least} to {above - 1}"
        above = band.least
        delay, bar = times.get(band.name, Times()).delay(95), min(100.0, percent / 2)
        rows.append(BandRow(band.name, priorities.replace("-", "−"), figures, levels, percent, bar, delay))
    return rows


def _queues(sample: Sample, sampler: Sampler) -> list[QueueRow]:
    """Return the queues, the ones with an alert first, then by their share of the limit."""
    alerts = by_queue(sample.firing, sample.seen)
    died = died_of_late(sample.seen)
    rows = [_queue(one, sample, sampler, alerts.get(one.queue), died[one.queue]) for one in sample.monitor.queues]
    levels = {"now": 0, "soon": 1}
    return sorted(rows, key=lambda one: (levels[one.alert.level] if one.alert else 2, -one.percent, one.name))


def _queue(one: QueueFigures, sample: Sample, sampler: Sampler, alert: Alert | None, late: int) -> QueueRow:
    """Return the row of a queue. `late`: its jobs that died within the last hour, as its alert counts them."""
    track = sampler.queues.get(one.queue)
    died = sampler.day.dead(one.queue, one.totals.buried, sample.seen.at)
    return QueueRow(
        name=one.queue,
        size=one.size,
        lag=max((band.max_age for band in one.bands), default=0.0),
        percent=one.alert_percent,
        paused=one.paused,
        alert=alert,
        rates=track.rates if track else None,
        failed=track.failed if track else None,
        dead=None if died is None and not late else max(died or 0, late),
        fails=alert is not None and "failed-attempts" in (alert.rule, *alert.merged),
    )


def _told(entry: Entry) -> str:
    """Return an entry of the audit log as a sentence without its time."""
    note = f": “{entry.note}”" if entry.note else ""
    number = f", {plural(entry.number, 'job')}" if entry.number > 1 else ""
    return f"{entry.act}, {entry.subject}{number}{note}"
