"""Options of several commands that run a process."""

from __future__ import annotations

from typing import Annotated

import typer

from stanchion.errors import InvalidInput

HealthPort = Annotated[
    int | None, typer.Option(help="Serve health by HTTP on this port: /livez, /readyz, and / with more, as JSON.")
]
HealthHost = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to serve health on; 0.0.0.0 for all.")]
Metrics = Annotated[bool, typer.Option("--metrics", help="Serve metrics for Prometheus on that port: /metrics.")]
StoreMetrics = Annotated[
    bool, typer.Option("--store-metrics", help="Add metrics of all queues and alerts; for one process of the fleet.")
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
LogFormat = Annotated[str, typer.Option(help="text, or json for programs: a line of JSON for each record.")]
Certificate = Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM), for TLS.")]
Key = Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM).")]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen at; port 0 takes a free one.")]

_LEVELS = ("debug", "info", "warning", "error")


def refuse_level(name: str) -> None:
    """Refuse an unknown log level."""
    if name.lower() not in _LEVELS:
        raise InvalidInput(f"--log-level must be one of {', '.join(_LEVELS)}, not {name!r}")
