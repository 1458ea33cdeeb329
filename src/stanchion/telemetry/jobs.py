"""The counts of workers as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from stanchion.telemetry.counts import DELAY_BUCKETS, RUN_BUCKETS, Sums, buckets_of
from stanchion.telemetry.prometheus import metric_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

_COUNTERS: Final = {
    "attempts": (
        "stanchion_job_attempts",
        "Finished attempts: done, failed, dead, moved, released, cancelled, continued as a flow, settled by the task.",
        ["queue", "task", "outcome"],
    ),
    "dead": ("stanchion_jobs_died", "Jobs that died at the end of an attempt.", ["queue"]),
    "lost": ("stanchion_job_leases_lost", "Outcomes that came too late: the job runs elsewhere.", []),
}
_HISTOGRAMS: Final = {
    "run": ("stanchion_job_run_seconds", "Run time of attempts.", ["queue", "task"], RUN_BUCKETS),
    "delay": (
        "stanchion_job_pickup_delay_seconds",
        "Time from due to start of jobs, by the store's clock.",
        ["queue"],
        DELAY_BUCKETS,
    ),
}
GAUGES: Final = {
    "slots": "Maximum number of concurrent jobs; a batch counts as one.",
    "running_jobs": "Running jobs; a batch counts as one.",
    "reserved_jobs": "Reserved jobs, running or about to run.",
    "unstored_outcomes": "Outcomes not yet stored.",
    "healthy": "1 while the worker reaches its store and no event loop is blocked.",
}


class WorkerCollector:
    """Exports the sums of one worker, or of several processes together, read at each scrape."""

    def __init__(self, sums: Callable[[], Sums]) -> None:
        self._sums = sums

    def register(self, registry: CollectorRegistry) -> None:
        """Export from this registry."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        core, sums = metric_families(), self._sums()
        for field, (name, said, labels) in _COUNTERS.items():
            counter = core.CounterMetricFamily(name, said, labels=labels)
            for key, value in getattr(sums, field).items():
                counter.add_metric(key, value)
            yield counter
        for field, (name, said, labels, bounds) in _HISTOGRAMS.items():
            family = core.HistogramMetricFamily(name, said, labels=labels)
            for key, histogram in getattr(sums, field).items():
                family.add_metric(key, *buckets_of(histogram, bounds))
            yield family
        for gauge, said in GAUGES.items():
            family = core.GaugeMetricFamily(f"stanchion_worker_{gauge}", said)
            if (gauge,) in sums.gauges:
                family.add_metric([], sums.gauges[(gauge,)])
            yield family
