"""The client library of Prometheus, which is optional, and its text format."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from stanchion.errors import MissingExtra
from stanchion.telemetry.server import Answer, Route

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where the library keeps the values of a process for its supervisor; it reads this when it is imported."""


def client() -> ModuleType:
    """Return the library. Raises MissingExtra."""
    try:
        import prometheus_client
    except ModuleNotFoundError:
        raise MissingExtra("metrics", "serving metrics") from None
    return prometheus_client


def new_registry() -> CollectorRegistry:
    """Return a registry with the memory, CPU and file descriptors of this process."""
    prometheus = client()
    registry: CollectorRegistry = prometheus.CollectorRegistry()
    prometheus.ProcessCollector(registry=registry)
    return registry


def registry_of_children(folder: str) -> CollectorRegistry:
    """Return a registry of the values that child processes keep in a folder, added up."""
    from prometheus_client.multiprocess import MultiProcessCollector  # client() was called before

    registry = new_registry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return registry


def forget_child(folder: str, pid: int) -> None:
    """Drop the gauges of a child process that has ended; its counters stay."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def exposed(registry: CollectorRegistry) -> Route:
    """Return the route that serves a registry."""
    prometheus = client()

    def metrics() -> Answer:
        return Answer(200, prometheus.CONTENT_TYPE_LATEST, prometheus.generate_latest(registry))

    return metrics
