"""The figures of a snapshot, by band and queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields, replace

from stanchion.alerts.records import BandFigures, Monitor, QueueFigures
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.verdict import alerts_of
from stanchion.core.service_levels import BANDS, BandName, band_of
from stanchion.core.times import moment
from stanchion.stores.letters import Letters
from stanchion.stores.records.jobs import SECOND, JobState

_SUMS = ("scheduled", "ready", "waiting", "running", "erroring", "dead")
_COUNTED = frozenset({JobState.SCHEDULED, JobState.READY, JobState.WAITING, JobState.RUNNING})


def monitor_of(seen: Snapshot, limits: Thresholds) -> Monitor:
    """Return the figures and the alerts of a snapshot."""
    bands = _figures(seen, limits)
    queues = tuple(_of_queue(one, bands.get(one.settings.name, {}), seen.letters) for one in seen.queues)
    return Monitor(
        at=None if seen.trouble is not None else moment(seen.at),
        exact=seen.whole,
        bands=tuple(_total(band.name, (figures for queue in queues for figures in queue.bands)) for band in BANDS),
        queues=queues,
        alerts=tuple(alerts_of(seen, limits)),
    )


def _of_queue(one: QueueSample, bands: dict[BandName, BandFigures], letters: Letters) -> QueueFigures:
    ordered = tuple(bands[band.name] for band in BANDS if band.name in bands)
    name = one.settings.name
    return QueueFigures(
        name, one.settings.paused, one.stats.states, ordered, one.stats.totals, letters.lying.get(name, 0)
    )


def _figures(seen: Snapshot, limits: Thresholds) -> dict[str, dict[BandName, BandFigures]]:
    """Return the figures of each queue and band, with all that the snapshot tells about them."""
    found: defaultdict[str, dict[BandName, BandFigures]] = defaultdict(dict)

    longest, runs = seen.run_limits(limits), defaultdict[tuple[str, BandName], float](float)

    def of(queue: str, band: BandName) -> BandFigures:
        return found[queue].get(band) or BandFigures(band)

    for job in seen.live:
        one = of(job.queue, band_of(job.priority).name)
        if job.state in _COUNTED:
            one = replace(one, **{job.state: getattr(one, job.state) + 1})
        errs = job.failures > 0 and job.state != JobState.RUNNING
        found[job.queue][one.band] = replace(
            one, erroring=one.erroring + errs, max_attempts=max(one.max_attempts, job.attempts)
        )
    for running in seen.running:
        one = of(running.queue, band_of(running.priority).name)
        share = seen.ago(running.started_at) / longest[running.id]
        runs[running.queue, one.band] = max(runs[running.queue, one.band], share)
        found[running.queue][one.band] = replace(
            one,
            max_lease_age=max(one.max_lease_age, seen.ago(running.started_at)),
            max_attempts=max(one.max_attempts, running.attempts),
        )
    for dead in seen.dead:
        one = of(dead.queue, band_of(dead.priority).name)
        found[dead.queue][one.band] = replace(one, dead=one.dead + 1)
    letters = seen.letter_queues
    for queue in seen.queues:
        name = queue.settings.name
        for band, head in seen.due(queue) if name not in letters else ():
            one = of(name, band.name)
            found[name][one.band] = replace(one, max_age=max(one.max_age, -head.due_in / SECOND))
    for name, bands in found.items():
        for band_name, one in bands.items():
            bands[band_name] = replace(one, alert_percent=_percent(one, limits, name, runs[name, band_name]))
    return found


def _percent(one: BandFigures, limits: Thresholds, queue: str, run: float) -> float:
    levels = limits.of(queue, one.band)
    return round(100 * max(one.max_age / levels.max_age, run, one.max_attempts / levels.max_attempts), 1)


def _total(band: BandName, parts: Iterable[BandFigures]) -> BandFigures:
    """Return the figures of a band over all queues."""
    found = BandFigures(band)
    for part in parts:
        if part.band == band:
            values = {
                one.name: (sum if one.name in _SUMS else max)((getattr(found, one.name), getattr(part, one.name)))
                for one in fields(BandFigures)
                if one.name != "band"
            }
            found = replace(found, **values)
    return found
