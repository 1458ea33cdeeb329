"""The client library of Prometheus, which is optional, and its text format."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from stanchion.errors import MissingExtra
from stanchion.telemetry.server import Answer, Route

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def client() -> ModuleType:
    """Return the library. Raises MissingExtra."""
    try:
        import prometheus_client
    except ModuleNotFoundError:
        raise MissingExtra("metrics", "serving metrics") from None
    return prometheus_client


def metric_families() -> ModuleType:
    """Return the classes of metrics that are made at a scrape. Raises MissingExtra."""
    client()
    from prometheus_client import metrics_core

    return metrics_core


def new_registry() -> CollectorRegistry:
    """Return a registry with the memory, CPU and file descriptors of this process."""
    prometheus = client()
    registry: CollectorRegistry = prometheus.CollectorRegistry()
    prometheus.ProcessCollector(registry=registry)
    return registry


class Written(Protocol):
    """Metrics outside a registry, as text."""

    def text(self, *, openmetrics: bool) -> bytes:
        """Return their families, without the end of the text."""
        ...


def exposed(registry: CollectorRegistry, written: Written | None = None) -> Route:
    """Return the route that serves a registry, as OpenMetrics or as the text format, whichever the client accepts.

    `written`: metrics that precede the registry's.
    """
    client()
    from prometheus_client.exposition import choose_encoder

    def metrics(accept: str = "") -> Answer:
        encode, content_type = choose_encoder(accept)
        openmetrics = content_type.startswith("application/openmetrics-text")
        before = b"" if written is None else written.text(openmetrics=openmetrics)
        return Answer(200, content_type, before + encode(registry))

    return metrics
