"""The figures of a store, and its alerts, as metrics for Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from stanchion.alerts.records import Monitor
from stanchion.errors import StanchionError
from stanchion.stores.records.queues import Counts
from stanchion.telemetry.text import Family, labels, written

READ_SECONDS: Final = 15.0
"""Least time between two readings of the store, however often it is scraped."""

KEPT_SECONDS: Final = 300.0
"""Age up to which a reading is served while a new one is late."""

STATES: Final = ("ready", "scheduled", "waiting", "running")
_BANDS: Final = {
    "stanchion_oldest_job_age_seconds": ("max_age", "Waiting time of the oldest claimable job.", 1),
    "stanchion_longest_attempt_seconds": ("max_lease_age", "Duration of the longest attempt.", 1),
    "stanchion_erroring_jobs": ("erroring", "Jobs waiting after a failed attempt.", 1),
    "stanchion_most_attempts": ("max_attempts", "Highest number of attempts of a live job.", 1),
    "stanchion_service_level_ratio": (
        "alert_percent",
        "Highest of age, run time and attempts, as a ratio of its limit.",
        100,
    ),
}

Keep = Callable[[Monitor], None]
"""Takes a reading; one that comes late, after the scrape that asked for it, is kept for the next one."""


class StoreMetrics:
    """The latest reading as text. The store is read again at a scrape, if the last reading is READ_SECONDS old.

    `read`: reads the store and passes the reading to a function. It may raise an error while the store is still being
    read: the reading before is served then, up to KEPT_SECONDS. Scrapes that come meanwhile are served it, too.
    """

    def __init__(self, read: Callable[[Keep], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._kept: _Kept | None = None

    @classmethod
    def of(cls, read: Callable[[], Monitor]) -> StoreMetrics:
        """Return the metrics of a store that is read as long as it takes."""
        return cls(lambda keep: keep(read()))

    @property
    def kept(self) -> bool:
        """Whether there is a reading that may be served."""
        return self._kept is not None and self._clock() - self._kept.at < KEPT_SECONDS

    def text(self, *, openmetrics: bool) -> bytes:
        """Return the families, written once for each reading and format."""
        kept = self._latest()
        with self._writing:
            if openmetrics not in kept.texts:
                kept.texts[openmetrics] = written(_families(kept.monitor), openmetrics=openmetrics)
            return kept.texts[openmetrics]

    def _latest(self) -> _Kept:
        if self._kept is not None and self._clock() - self._kept.at < READ_SECONDS:
            return self._kept
        if not self._reading.acquire(blocking=not self.kept):
            return self._last()
        try:
            if self._kept is None or self._clock() - self._kept.at >= READ_SECONDS:  # else another scrape has read
                self._read(self._keep)
        except StanchionError:
            if not self.kept:
                raise
        finally:
            self._reading.release()
        return self._last()

    def _keep(self, monitor: Monitor) -> None:
        same = self._kept is not None and self._kept.monitor is monitor
        self._kept = _Kept(monitor, self._clock(), self._kept.texts if self._kept and same else {})

    def _last(self) -> _Kept:
        assert self._kept is not None  # noqa: S101 - the callers know
        return self._kept


class _Kept(NamedTuple):
    """A reading, when it ended, and its texts by format: whether they are OpenMetrics."""

    monitor: Monitor
    at: float
    texts: dict[bool, bytes]


def _families(seen: Monitor) -> Iterator[Family]:
    yield Family("stanchion_store_up", "1 while the store answers.", [("", seen.at is not None)])
    if seen.at is not None:
        said = "Time of the reading by the store's clock, in seconds since the epoch; absent while it does not answer."
        yield Family("stanchion_store_read_timestamp_seconds", said, [("", seen.at.timestamp())])
    queues = [(labels(queue=one.queue), one) for one in seen.queues]
    states = [(state, labels(state=state)) for state in STATES]
    jobs = ((f"{name},{label}", getattr(one.size, state)) for name, one in queues for state, label in states)
    yield Family("stanchion_queue_jobs", "Live jobs.", jobs)
    items = (
        (f"{name},{label}", getattr(one.items, state))
        for name, one in queues
        if one.items.total > one.size.total
        for state, label in states
    )
    yield Family("stanchion_queue_items", "Live items of the queues whose jobs carry chunks.", items)
    paused = ((name, one.paused) for name, one in queues)
    yield Family("stanchion_queue_paused", "1 while the queue is paused.", paused)
    events = [labels(event=event) for event in Counts._fields]
    happened = (
        (f"{name},{label}", number) for name, one in queues for label, number in zip(events, one.totals, strict=True)
    )
    said = "Events since the queue was made: pushed, committed, rolled_back, buried and others."
    yield Family("stanchion_queue_events", said, happened, counter=True)
    bands = [(f"{name},{labels(band=figures.band)}", figures) for name, one in queues for figures in one.bands]
    for family, (field, said, of) in _BANDS.items():
        yield Family(family, said, [(inside, getattr(figures, field) / of) for inside, figures in bands])
    alerts = ((labels(level=one.level, rule=one.rule, kind=one.kind, subject=one.subject), 1.0) for one in seen.alerts)
    yield Family("stanchion_alerts", "1 for each alert.", alerts)
