"""A manager in this process, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from stanchion.core.urls import Listen
from stanchion.manager.server.server import ManagerServer
from stanchion.manager.server.settings import ServerSettings
from stanchion.manager.service.manager import Manager
from stanchion.stores.protocol import Store

LOOPBACK = Listen("127.0.0.1", 0)


class ManagerThread:
    """Serves a store while it is entered."""

    def __init__(
        self, store: Store, settings: ServerSettings | None = None, lease: float = 5.0, heartbeat: float = 10.0
    ) -> None:
        self.store, self._settings = store, settings or ServerSettings(LOOPBACK)
        self._lease, self._heartbeat = lease, heartbeat
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="manager-in-test", daemon=True)
        self.manager: Manager

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0)
        self._end()

    @property
    def server(self) -> ManagerServer:
        """Its server."""
        return self.manager.server

    @property
    def address(self) -> str:
        """Its host and port."""
        return self.server.address

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{'grpc' if self._settings.tls is None else 'grpcs'}://{self.address}"

    def drain(self) -> None:
        """Take no more calls, as the first step of a stop."""
        asyncio.run_coroutine_threadsafe(self.server.drain(), self._loop).result(60)

    def stop(self, grace: float) -> None:
        """Drain, and stop."""
        asyncio.run_coroutine_threadsafe(self.manager.stop(grace), self._loop).result(60 + grace)

    async def _start(self) -> None:
        self.manager = Manager(self.store, self._settings, lease=self._lease, heartbeat=self._heartbeat)
        await self.manager.start()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
