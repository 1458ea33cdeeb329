"""Probes and metrics of a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import TimeoutError as Silent
from typing import NamedTuple

from stanchion.alerts.alerts import monitor_of_store
from stanchion.alerts.collector import StoreMetrics
from stanchion.manager.dispatch.figures import EngineStatus
from stanchion.manager.service.manager import Manager
from stanchion.manager.service.metrics import ManagerCollector
from stanchion.stores.protocol import Store
from stanchion.telemetry.prometheus import exposed, new_registry
from stanchion.telemetry.server import LOOPBACK, ProbeServer, probes

ANSWER_SECONDS = 10.0
"""Seconds in which the event loop of a live manager answers."""


class ProbeSettings(NamedTuple):
    """Where to serve, and what in addition to the probes: metrics of the manager, and of the store."""

    port: int
    host: str = LOOPBACK
    metrics: bool = False
    store_metrics: bool = False


def serve_probes(manager: Manager, store: Store, settings: ProbeSettings) -> ProbeServer:
    """Serve from now on. Call it in the manager's event loop. Raises InvalidInput and MissingExtra."""
    loop = asyncio.get_running_loop()

    def figures() -> EngineStatus:
        async def read() -> EngineStatus:
            return manager.engine.status()

        return asyncio.run_coroutine_threadsafe(read(), loop).result(ANSWER_SECONDS)

    def serving() -> bool:
        return manager.server.serving

    routes = probes(
        lambda: _silent(figures), lambda: None if serving() else "not serving: it stops, or its store is away"
    )
    if settings.metrics or settings.store_metrics:
        registry, of_store = new_registry(), None
        ManagerCollector(figures, serving).register(registry)
        if settings.store_metrics:
            of_store = StoreMetrics.of(lambda: monitor_of_store(store))
        routes["/metrics"] = exposed(registry, of_store)
    server = ProbeServer({"/": routes["/readyz"], **routes}, settings.host, settings.port)
    server.start()
    return server


def _silent(ask: Callable[[], object]) -> str | None:
    try:
        ask()
    except Silent:
        return f"the event loop does not answer within {ANSWER_SECONDS:g} s"
    return None
