"""The figures of a snapshot, by band and queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from stanchion.alerts.records import BandFigures, Monitor, QueueFigures
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.alerts.thresholds import Levels, Thresholds
from stanchion.alerts.verdict import alerts_of
from stanchion.core.service_levels import BANDS, BandName, band_of
from stanchion.core.times import moment
from stanchion.stores.letters import Letters
from stanchion.stores.records.jobs import SECOND, JobState

_SUMS = ("scheduled", "ready", "waiting", "running", "erroring", "dead")
_MAXIMA = tuple(one.name for one in fields(BandFigures) if one.name not in ("band", *_SUMS))
_COUNTED = frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING, JobState.RUNNING})

_Place = tuple[str, BandName]
"""A queue and a band."""


def monitor_of(seen: Snapshot, limits: Thresholds) -> Monitor:
    """Return the figures and the alerts of a snapshot."""
    bands = _figures(seen, limits)
    queues = tuple(_of_queue(one, bands.get(one.settings.name, {}), seen.letters) for one in seen.queues)
    of_bands = [figures for queue in queues for figures in queue.bands]
    return Monitor(
        at=None if seen.trouble is not None else moment(seen.at),
        exact=seen.whole,
        bands=tuple(_total(band.name, of_bands) for band in BANDS),
        queues=queues,
        alerts=tuple(alerts_of(seen, limits)),
    )


def _of_queue(one: QueueSample, bands: dict[BandName, BandFigures], letters: Letters) -> QueueFigures:
    ordered = tuple(bands[band.name] for band in BANDS if band.name in bands)
    name = one.settings.name
    lying, stats = letters.lying.get(name, 0), one.stats
    return QueueFigures(name, one.settings.paused, stats.states, ordered, stats.totals, lying, stats.items)


def _figures(seen: Snapshot, limits: Thresholds) -> dict[str, dict[BandName, BandFigures]]:
    """Return the figures of each queue and band, with all details of the snapshot."""
    counts, runs = _counts(seen), _run_shares(seen, limits)
    found: defaultdict[str, dict[BandName, BandFigures]] = defaultdict(dict)
    for (queue, band), values in counts.items():
        run = runs.get((queue, band), 0.0)
        found[queue][band] = BandFigures(band, **values, alert_percent=_percent(values, limits.of(queue, band), run))
    return found


def _counts(seen: Snapshot) -> dict[_Place, dict[str, Any]]:
    """Return the fields of the figures that are counted, by queue and band."""
    counts: defaultdict[_Place, defaultdict[str, Any]] = defaultdict(lambda: defaultdict(int))
    for job in seen.live:
        one = counts[job.queue, band_of(job.priority).name]
        if job.state in _COUNTED:
            one[job.state] += 1
        one["erroring"] += job.failures > 0 and job.state != JobState.RUNNING
        one["max_attempts"] = max(one["max_attempts"], job.attempts)
    for running in seen.running:
        one = counts[running.queue, band_of(running.priority).name]
        one["max_lease_age"] = max(one["max_lease_age"], seen.ago(running.started_at))
        one["max_attempts"] = max(one["max_attempts"], running.attempts)
    for dead in seen.dead:
        counts[dead.queue, band_of(dead.priority).name]["dead"] += 1
    for queue in (one for one in seen.queues if one.settings.name not in seen.letter_queues):
        for band, head in seen.due(queue):
            one = counts[queue.settings.name, band.name]
            one["max_age"] = max(one["max_age"], -head.due_in / SECOND)
    return {place: dict(values) for place, values in counts.items()}


def _run_shares(seen: Snapshot, limits: Thresholds) -> dict[_Place, float]:
    """Return the run time of the longest attempt as a share of its limit, by queue and band."""
    longest, shares = seen.run_limits(limits), defaultdict[_Place, float](float)
    for one in seen.running:
        place = one.queue, band_of(one.priority).name
        shares[place] = max(shares[place], seen.ago(one.started_at) / longest[one.id])
    return shares


def _percent(values: Mapping[str, Any], levels: Levels, run: float) -> float:
    age, attempts = values.get("max_age", 0.0), values.get("max_attempts", 0)
    percent: float = 100 * max(age / levels.max_age, run, attempts / levels.max_attempts)
    return round(percent, 1)


def _total(band: BandName, parts: Collection[BandFigures]) -> BandFigures:
    """Return the figures of a band over all queues."""
    own = [one for one in parts if one.band == band]
    if not own:
        return BandFigures(band)
    sums = {name: sum(getattr(one, name) for one in own) for name in _SUMS}
    most = {name: max(getattr(one, name) for one in own) for name in _MAXIMA}
    return BandFigures(band, **sums, **most)
