"""The figures of a store, and its alerts, as metrics for Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from stanchion.alerts.records import BandFigures, Monitor
from stanchion.telemetry.prometheus import metric_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

READ_SECONDS: Final = 15.0
"""Least time between two readings of the store, however often it is scraped."""

STATES: Final = ("ready", "scheduled", "waiting", "running")
_BANDS: Final = {
    "stanchion_oldest_job_age_seconds": ("max_age", "Time for which the oldest claimable job could have run."),
    "stanchion_longest_attempt_seconds": ("max_lease_age", "Time for which the longest attempt has run."),
    "stanchion_erroring_jobs": ("erroring", "Live jobs that wait after a failed attempt."),
    "stanchion_most_attempts": ("max_attempts", "Attempts of the live job with most of them."),
}


class StoreCollector:
    """Exports the latest reading; reads again at a scrape, if the last one is READ_SECONDS old."""

    def __init__(self, read: Callable[[], Monitor]) -> None:
        self._read = read
        self._reading = threading.Lock()
        self._latest: Monitor | None = None
        self._read_at = 0.0

    def register(self, registry: CollectorRegistry) -> None:
        """Export from this registry."""
        registry.register(self)

    def describe(self) -> Iterable[Any]:
        """Return nothing, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        core = metric_families()
        seen = self._seen()
        up = core.GaugeMetricFamily("stanchion_store_up", "1 while the store answers.")
        up.add_metric([], seen.at is not None)
        yield up
        yield from self._queues(core, seen)
        for name, (field, said) in _BANDS.items():
            yield _family(core.GaugeMetricFamily(name, said, labels=["queue", "band"]), seen, field, 1)
        ratio = core.GaugeMetricFamily(
            "stanchion_service_level_ratio",
            "Largest of age, run time and attempts, as a ratio of its limit.",
            labels=["queue", "band"],
        )
        yield _family(ratio, seen, "alert_percent", 100)
        alerts = core.GaugeMetricFamily(
            "stanchion_alerts", "1 for each alert.", labels=["level", "rule", "kind", "subject"]
        )
        for alert in seen.alerts:
            alerts.add_metric([alert.level, alert.rule, alert.kind, alert.subject], 1)
        yield alerts

    def _queues(self, core: Any, seen: Monitor) -> Iterator[Any]:
        jobs = core.GaugeMetricFamily("stanchion_queue_jobs", "Live jobs.", labels=["queue", "state"])
        paused = core.GaugeMetricFamily("stanchion_queue_paused", "1 while the queue is paused.", labels=["queue"])
        events = core.CounterMetricFamily(
            "stanchion_queue_events", "What has happened to jobs, since the queue was made.", labels=["queue", "event"]
        )
        for one in seen.queues:
            for state in STATES:
                jobs.add_metric([one.queue, state], getattr(one.size, state))
            paused.add_metric([one.queue], one.paused)
            for event, number in one.totals._asdict().items():
                events.add_metric([one.queue, event], number)
        yield from (jobs, paused, events)

    def _seen(self) -> Monitor:
        with self._reading:
            now = time.monotonic()
            if self._latest is None or now - self._read_at >= READ_SECONDS:
                self._latest, self._read_at = self._read(), now
            return self._latest


def _family(family: Any, seen: Monitor, field: str, of: float) -> Any:
    one: BandFigures
    for queue in seen.queues:
        for one in queue.bands:
            family.add_metric([queue.queue, one.band], getattr(one, field) / of)
    return family
