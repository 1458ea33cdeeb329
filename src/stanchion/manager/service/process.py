"""A manager as a process: it serves until a signal, then drains."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from contextlib import suppress

from stanchion.core.backoff import Backoff
from stanchion.errors import StoreUnavailable
from stanchion.manager.server.settings import ServerSettings
from stanchion.manager.service.manager import Manager
from stanchion.manager.service.probes import ProbeSettings, serve_probes
from stanchion.stores.protocol import Store
from stanchion.worker.process.signals import stopping_signals

log = logging.getLogger("stanchion.manager")


def run_manager(
    store: Store,
    settings: ServerSettings,
    grace: float,
    started: Callable[[Manager], None],
    probes: ProbeSettings | None = None,
) -> None:
    """Serve a store until SIGTERM or SIGINT, then let calls finish for up to `grace` seconds; a second one: stop now.

    Call it in the main thread. It waits for a store that is away, not ready by its probes meanwhile. `started` is
    called once it listens. `probes`: where it serves probes and metrics. Raises InvalidInput for settings that it
    refuses to start with, SchemaMismatch and a lasting StoreUnavailable for a store that can't be used.
    """
    settings.check()
    asyncio.run(_run(store, settings, grace, started, probes))


async def _run(
    store: Store,
    settings: ServerSettings,
    grace: float,
    started: Callable[[Manager], None],
    probes: ProbeSettings | None,
) -> None:
    manager = Manager(store, settings)
    stop, at_once = asyncio.Event(), asyncio.Event()

    def signalled() -> None:
        (at_once if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in stopping_signals():
        loop.add_signal_handler(number, signalled)
    served = None if probes is None else serve_probes(manager, store, probes)
    try:
        if await _reached(store, stop):
            await _serve(manager, lambda: started(manager), grace, stop, at_once)
    finally:
        if served is not None:
            served.stop()


async def _reached(store: Store, stop: asyncio.Event) -> bool:
    """Wait until the store answers; return False if the process is asked to stop before."""
    backoff = Backoff()
    while not stop.is_set():
        try:
            await asyncio.to_thread(store.check)
        except StoreUnavailable as error:
            if error.lasting:
                raise
            pause = backoff.failed()
            log.warning("waiting for the store, next try in %.1f s: %s", pause, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
        else:
            return True
    return False


async def _serve(
    manager: Manager, started: Callable[[], None], grace: float, stop: asyncio.Event, at_once: asyncio.Event
) -> None:
    """Serve until `stop`; then let calls finish for up to `grace` seconds, or until `at_once`."""
    await manager.start()
    # What exists now stays. A garbage collection that looks through it stops all work for a tenth of a second.
    gc.collect()
    gc.freeze()
    try:
        started()
        await stop.wait()
        log.info("stopping: calls under way may take %.0f s more", grace)
    finally:
        await manager.stop(grace, at_once)
