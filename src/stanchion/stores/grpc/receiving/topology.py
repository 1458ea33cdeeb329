"""Follows which managers there are, by a stream from any of them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

import grpc

from stanchion.core.backoff import Backoff
from stanchion.errors import StanchionError
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.streams import Stream
from stanchion.stores.wakeup.broadcast import started
from stanchion.stores.wire.messages import METHODS, pb, read, written

log = logging.getLogger("stanchion.grpc")

_METHOD: Final = METHODS["Queues.Topology"]
_STREAM_SECONDS: Final = 300.0


class Topology:
    """The managers, by address, with the queues that each owns in part, and the queues that have an owner.

    `changed` is called after each change.
    """

    def __init__(self, channels: Channels, calls: Calls, changed: Callable[[], None]) -> None:
        self._channels, self._calls, self._changed = channels, calls, changed
        self.managers: Mapping[str, frozenset[str]] = {}
        self.owned: frozenset[str] = frozenset()
        self._stream = Stream(channels, _METHOD)
        self._ending = threading.Event()

    def start(self) -> None:
        """Follow them, in a thread."""
        started(self._run, "stanchion-topology")

    def end(self) -> None:
        """Follow them no more."""
        self._ending.set()
        self._stream.close()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._ending.is_set():
            host = self._channels.hosts()[0]
            try:
                self._read(host, backoff)
            except grpc.RpcError as error:
                if not self._ending.is_set() and error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    self._pause(host, error, backoff.failed())

    def _pause(self, host: str, error: grpc.RpcError, seconds: float) -> None:
        try:
            raise self._calls.failure(host, error)
        except StanchionError as reason:
            log.info("the managers are not known, next try in %.1f s: %s", seconds, reason)
        self._channels.avoid(host)
        self._ending.wait(seconds)

    def _read(self, host: str, backoff: Backoff) -> None:
        seconds = _STREAM_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load

        def take(data: bytes) -> None:
            reply = read(pb.TopologyReply, data)
            backoff.succeeded()
            self.managers = {
                one.address: frozenset(owned.queue for owned in one.slices)
                for one in reply.managers
                if one.address and not one.draining
            }
            self.owned = frozenset().union(*self.managers.values())
            self._changed()

        self._stream.read(host, written(pb.TopologyRequest()), take, seconds=seconds)
