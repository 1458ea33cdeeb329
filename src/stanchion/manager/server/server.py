"""The server: ports, limits, health, reflection and the end."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from stanchion.core.urls import Listen
from stanchion.errors import InvalidInput, StanchionError
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.server.guard import Guard
from stanchion.manager.server.hub import Hub
from stanchion.manager.server.pool import StoreCalls
from stanchion.manager.server.services import SERVICES, Services
from stanchion.manager.server.settings import Limits, ServerSettings, Tls
from stanchion.stores.protocol import Store
from stanchion.stores.wire.transport import PINGS, REPLY_BYTES, REQUEST_BYTES

log = logging.getLogger("stanchion.manager")

CHECK_SECONDS = 5.0
"""Time between two looks whether the store answers."""

_SERVING, _NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class ManagerServer:
    """Serves a store by gRPC, in the event loop that starts it.

    The health service answers for the server as a whole (the empty name), and for each service, which serves only while
    the store answers.
    """

    def __init__(self, store: Store, settings: ServerSettings, engine: Engine, lease: float) -> None:
        settings.check()
        self._store, self._settings, self._engine, self._lease = store, settings, engine, lease
        self._calls = StoreCalls(settings.limits.threads)
        self._guard = Guard(settings)
        self._health = health.aio.HealthServicer()
        self._looking: asyncio.Task[None] | None = None
        self._port = settings.listen.port
        self._answers = False

    @property
    def serving(self) -> bool:
        """True while it takes new calls, and its store answers."""
        return self._answers and not self._guard.draining

    @property
    def address(self) -> str:
        """The host and port that clients connect to."""
        return Listen(self._settings.listen.host, self._port).text

    @property
    def advertised(self) -> str:
        """The host and port announced to other managers and clients."""
        listen = self._settings.listen
        given = self._settings.advertise
        host, port = (listen.host, None) if given is None else (given.host, given.port)
        if given is None and host in _ANY:
            host = socket.gethostname()
        return Listen(host, port or self._port).text

    async def start(self) -> None:
        """Listen. Raises InvalidInput for an address that can't be listened at."""
        settings = self._settings
        compression = grpc.Compression.Gzip if settings.compress else None
        self._server = server = grpc.aio.server(options=_options(settings.limits), compression=compression)
        self._hub = Hub(self._store)
        self._services = Services(
            self._store, self._calls, self._guard, self._hub, self._engine, settings.limits, self._lease
        )
        self.topology = self._services.topology
        server.add_generic_rpc_handlers((self._services,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        self._port = self._bound(server, settings)
        self._answers = True
        await self._tell(serving=True)
        await server.start()
        self._looking = asyncio.create_task(self._look())

    async def drain(self) -> None:
        """Take no new calls; notify receivers and subscribers that this manager ends soon."""
        self._guard.draining = True
        if self._looking is not None:
            self._looking.cancel()
        await self._health.enter_graceful_shutdown()
        self._services.receivers.drain()
        self.topology.drain()

    async def stop(self, grace: float, at_once: asyncio.Event | None = None) -> None:
        """End streams, let calls under way finish for up to `grace` seconds or until `at_once`; stop."""
        self._services.end_streams()
        ending: list[asyncio.Task[object]] = [asyncio.create_task(self._services.idle())]
        if at_once is not None:
            ending.append(asyncio.create_task(at_once.wait()))
        await asyncio.wait(ending, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        for task in ending:
            task.cancel()
        await self._server.stop(None if self._guard.calls.taken else _LAST_ANSWERS)
        self._hub.close()
        self._calls.close()

    def _bound(self, server: Any, settings: ServerSettings) -> int:
        address = settings.listen.text
        try:
            if settings.tls is None:
                return int(server.add_insecure_port(address))
            return int(server.add_secure_port(address, _credentials(settings.tls)))
        except RuntimeError:
            raise InvalidInput(
                f"can't listen at {address}: it is taken by another process, or is no address of this machine, or "
                f"the certificate does not fit its key; choose another one with --listen, such as 127.0.0.1:0"
            ) from None

    async def _look(self) -> None:
        """Report to the health service whether the store answers."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._calls.run(self._store.now)
            except StanchionError as error:
                if self._answers:
                    log.warning("the store does not answer: %s", error)
                self._answers = False
            else:
                if not self._answers:
                    log.info("the store answers again")
                self._answers = True
            await self._tell(serving=self._answers)

    async def _tell(self, *, serving: bool) -> None:
        for name in SERVICES:
            await self._health.set(name, _SERVING if serving else _NOT_SERVING)


_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

_LAST_ANSWERS = 1.0
"""Seconds for answers that are made to leave."""


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    mutual = tls.callers_authority is not None
    return grpc.ssl_server_credentials([(tls.key, tls.certificate)], tls.callers_authority, mutual)


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # with it two managers share a port in silence
        ("grpc.max_send_message_length", REPLY_BYTES),
        ("grpc.max_receive_message_length", REQUEST_BYTES),
        ("grpc.http2.bdp_probe", 0),  # else up to 16 MiB of each request come in before it is read
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.server_handshake_timeout_ms", 10_000),
        *PINGS,
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]
