"""The figures of all managers, each asked for its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import grpc

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.records import calls
from stanchion.stores.records.managers import ManagerStatus
from stanchion.stores.wire.messages import METHODS, pb, read, written
from stanchion.stores.wire.store import STATUS

_TOPOLOGY: Final = METHODS["Queues.Topology"]
_STATUS: Final = METHODS["Queues.Status"]
_SECONDS: Final = 3.0
"""Time for one manager to answer."""


class Statuses:
    """Asks managers for their status."""

    def __init__(self, channels: Channels, made: Calls) -> None:
        self._channels, self._calls = channels, made

    def manager_status(self) -> list[ManagerStatus]:
        """Return the figures of all managers alive, by address; `answered` says which of them did.

        Raises StoreUnavailable if no manager of the URL answers.
        """
        host, managers = self._managers()
        return [self._status(address) for address in sorted({one.address or host for one in managers} or {host})]

    def sessions(self) -> list[str]:
        """Return the ids of the sessions of all managers alive. Raises StoreUnavailable if none answers."""
        return [one.session for one in self._managers()[1]]

    def _managers(self) -> tuple[str, Sequence[pb.Manager]]:
        """Return a manager that answers, and its status of all managers."""
        failure: StoreUnavailable | None = None
        for host in self._channels.hosts():
            try:
                return host, self._topology(host).managers
            except grpc.RpcError as error:
                failure = self._calls.failure(host, error)
                self._channels.avoid(host)
        raise failure or StoreUnavailable("the URL names no manager")

    def _topology(self, host: str) -> pb.TopologyReply:
        call = self._channels.call(host, _TOPOLOGY)(
            written(pb.TopologyRequest()), timeout=calls.CALL_SECONDS, metadata=self._channels.metadata
        )
        try:
            return read(pb.TopologyReply, next(call))
        finally:
            call.cancel()

    def _status(self, address: str) -> ManagerStatus:
        ask = self._channels.call(address, _STATUS)
        try:
            reply = ask(written(pb.StatusRequest()), timeout=_SECONDS, metadata=self._channels.metadata)
        except grpc.RpcError as error:
            with suppress(SchemaMismatch):  # it is older than this client
                self._calls.failure(address, error)
            return ManagerStatus(address)
        return STATUS.taken(read(pb.StatusReply, reply))._replace(address=address)
