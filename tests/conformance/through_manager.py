"""Clients of a manager in this process."""

from __future__ import annotations

from time import perf_counter, time
from types import SimpleNamespace

import grpc._channel
import pytest

from stanchion.manager.server import known
from stanchion.stores.grpc.client.address import address_of
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.store import GrpcStore
from stanchion.stores.protocol import Store
from tests.servers.manager import ManagerThread

# Cases that set the clock of Python must not set that of gRPC, whose other half asks the machine.
setattr(grpc._channel, "time", SimpleNamespace(time=time, perf_counter=perf_counter))  # noqa: B010

RARELY = 3600.0
"""The heartbeat of a manager that leaves the upkeep of its store to the cases, as other stores do."""


@pytest.fixture(autouse=True)
def any_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases that store jobs without an app name semaphores that nobody has declared; a manager refuses them."""
    monkeypatch.setattr(known, "_semaphores", lambda _verb, _args: [])


class Client(GrpcStore):
    """A client with which a test moves the clock of the manager's store."""

    def __init__(self, manager: ManagerThread, database: Store | None = None) -> None:
        super().__init__(Channels(address_of(manager.url)), database)
        self._behind, self._beside = manager.store, database

    @property
    def clock_offset(self) -> float:
        return self._behind.clock_offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        self._behind.clock_offset = seconds
        if self._beside is not None:
            self._beside.clock_offset = seconds
