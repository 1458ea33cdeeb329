"""The figures of a manager as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from stanchion.core.names.partition_names import logical_name
from stanchion.manager.dispatch.figures import EngineStatus
from stanchion.telemetry.prometheus import metric_families

if TYPE_CHECKING:
    from types import ModuleType

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

_GAUGES: Final = {
    "slices": "Slices of lanes that this manager owns.",
    "window": "Jobs in memory that are due soon.",
    "lag": "Time since the next job was due.",
    "in_flight": "Jobs at receivers.",
}
_NAMES: Final = {
    "slices": "stanchion_manager_slices",
    "window": "stanchion_manager_window_jobs",
    "lag": "stanchion_manager_lag_seconds",
    "in_flight": "stanchion_manager_in_flight_jobs",
}
_COUNTERS: Final = {
    "sent": "Jobs sent to receivers.",
    "acknowledged": "Finished jobs.",
    "postponed": "Jobs returned by receivers.",
    "expired": "Jobs taken back from dead receivers.",
    "statements": "Calls of the store with jobs of the queue.",
}


class ManagerCollector:
    """Exports the figures of dispatch, read at each scrape."""

    def __init__(self, figures: Callable[[], EngineStatus], serving: Callable[[], bool]) -> None:
        self._figures, self._serving = figures, serving

    def register(self, registry: CollectorRegistry) -> None:
        """Export from this registry."""
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        core, status = metric_families(), self._figures()
        yield _single(
            core, "stanchion_manager_serving", "1 while it accepts calls and its store answers.", self._serving()
        )
        yield _single(core, "stanchion_manager_receivers", "Connected receivers.", len(status.receivers))
        writes = core.GaugeMetricFamily(
            "stanchion_manager_waiting_writes", "Pushes and outcomes waiting to be stored.", labels=["kind"]
        )
        writes.add_metric(["pushes"], status.pushes)
        writes.add_metric(["outcomes"], status.outcomes)
        yield writes
        for field, said in _GAUGES.items():
            yield _by_queue(core.GaugeMetricFamily(_NAMES[field], said, labels=["queue"]), status, field)
        for field, said in _COUNTERS.items():
            family = core.CounterMetricFamily(f"stanchion_manager_{field}", said, labels=["queue"])
            yield _by_queue(family, status, field)


def _single(core: ModuleType, name: str, said: str, value: float) -> Metric:
    family: GaugeMetricFamily = core.GaugeMetricFamily(name, said)
    family.add_metric([], value)
    return family


def _by_queue(family: GaugeMetricFamily | CounterMetricFamily, status: EngineStatus, field: str) -> Metric:
    values: dict[str, list[float]] = {}
    for one in status.queues:
        values.setdefault(logical_name(one.queue), []).append(getattr(one, field))
    for queue, parts in values.items():
        family.add_metric([queue], max(parts) if field == "lag" else sum(parts))
    return family
