"""The settings of worker processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from stanchion.telemetry.server import LOOPBACK
from stanchion.worker.claiming.order import Order

EXIT_OK, EXIT_UNUSABLE = 0, 2
"""Exit codes of a worker process: stopped as asked, and unusable settings."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings shared by the processes of one `stanchion worker`; see `Worker`."""

    target: str
    """The app, as `module:attribute`."""
    queues: tuple[str, ...] | None = None
    threads: int = 8
    until_empty: bool = False
    grace: float = 30.0
    heartbeat: float = 10.0
    poll: float | None = None
    health_file: str | None = None
    health_port: int | None = None
    health_host: str = LOOPBACK
    log_level: str = "INFO"
    log_format: str = "text"
    until_finished: bool = False
    name: str | None = None
    timeout: float | None = None
    lanes: tuple[str, ...] = ()
    order: Order = "priority"
    metrics: bool = False
    store_metrics: bool = False
    metrics_file: str | None = None
    stall: float = 300.0
    """Seconds that a process with stuck threads keeps jobs without a time-out."""
    pulse_file: str | None = None
    imports: tuple[str, ...] = ()
    """Modules to import in addition to the app's includes."""

    def to_json(self) -> str:
        """Return the settings as text, for the command line of a child."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerSettings:
        """Return the settings that `to_json` wrote."""
        settings = cls(**json.loads(text))
        queues = None if settings.queues is None else tuple(settings.queues)
        return replace(settings, queues=queues, lanes=tuple(settings.lanes), imports=tuple(settings.imports))
