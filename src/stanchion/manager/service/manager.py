"""A manager: store, engine, leadership, server and upkeep together.

    start   engine ──► server listens ──► leadership takes slices ──► jobs are sent; upkeep
    stop    no new calls ──► engine sends no more, stores pending work ──► slices are released ──► streams end

Slices are released before the streams end, so that the receivers' jobs pass to the next owner.
"""

from __future__ import annotations

import asyncio
import logging

from stanchion.context.steadiness import Steadiness
from stanchion.context.upkeep import Upkeep
from stanchion.core.boot_clock import boot_clock
from stanchion.core.functions import Listeners
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.leadership.leadership import LEASE_SECONDS, Leadership, Timing
from stanchion.manager.leadership.signals import Signals
from stanchion.manager.server.pool import StoreCalls
from stanchion.manager.server.server import ManagerServer
from stanchion.manager.server.settings import ServerSettings
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.worker.reaper import Reaper


class StoreHost:
    """A store without an app: it declares nothing, and its events have no listeners.

    Upkeep by a manager is as by a worker: with managers only, there may be no worker alive that would do it.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.events = store, Listeners()
        self.upkeep = Upkeep(self)

    def store_semaphores(self) -> Store:
        """See `Host`."""
        return self.store

    def notice_partitions(self) -> Store:
        """See `Host`."""
        return self.store

    def keep_declared(self) -> None:
        """See `ReaperHost`."""

    def fire_dead(self, row: JobRow) -> None:
        """See `Host`."""


log = logging.getLogger("stanchion.manager")

HEARTBEAT_SECONDS = 10.0

AHEAD_SECONDS = 0.002
"""Time from the timer of an event loop, which may be a millisecond late, to a call in another thread."""

_THREADS = 9
"""Calls of the store in addition to clients': one each for pushes, claims, outcomes, late outcomes and reads, and the
leadership's."""


class Manager:
    """Serves a store by gRPC, and dispatches the jobs of its share of the lanes. Make it in its event loop.

    `lease`: seconds after which another manager takes the share of one that has died; the same for all managers.
    `heartbeat`: as of a worker: jobs of dead ones are looked for twice in it.
    """

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        *,
        lease: float = LEASE_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        settings.check()
        self._calls = StoreCalls(_THREADS)
        self.engine = Engine(store, self._calls.run, delays=Delays(lease=lease, ahead=AHEAD_SECONDS), clock=boot_clock)
        self.server = ManagerServer(store, settings, self.engine, lease)
        self._store, self._lease = store, lease
        self._steadiness = Steadiness(heartbeat)
        self._reaper = Reaper(StoreHost(store), heartbeat / 2, lambda: self._steadiness.steady)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Listen, and take part. Raises InvalidInput for an address that can't be listened at."""
        await self.server.start()
        address = self.server.advertised
        self._signals = Signals(self._store, self._calls.run, lambda: self.leadership.wake())
        self.leadership = Leadership(
            *(self._store, self._calls.run, self.engine, address),
            timing=Timing(self._lease),
            signal=self._signals.send,
            renewed=self._steadiness.answered,
        )
        await self.engine.start(self.leadership)
        self._signals.start()
        work = self.leadership.run(), self.server.topology.follow(self.leadership)
        self._tasks = [asyncio.create_task(one) for one in work]
        self._reaper.start()

    async def stop(self, grace: float, at_once: asyncio.Event | None = None) -> None:
        """Drain for up to `grace` seconds, or until `at_once`; stop."""
        self._reaper.stop()
        await self.server.drain()
        if self._tasks:
            await self.engine.drain(min(grace, _LAST_OUTCOMES))
            await self._left(min(self._lease, grace + 1))
            await self._signals.close()
        await self.server.stop(grace, at_once)
        for task in self._tasks:
            task.cancel()
        await self.engine.close()
        self._calls.close()

    async def _left(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.leadership.leave()
        except TimeoutError:
            log.warning("the share of this manager is taken once its lease has ended")


_LAST_OUTCOMES = 2.0
"""Seconds for pushes and outcomes that wait to be stored."""
