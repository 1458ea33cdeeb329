"""Channels to managers, one for each host, and the host that answers."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import grpc

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.grpc.client.address import Address, contents_of
from stanchion.stores.grpc.client.forking import LIBRARY, know_forks
from stanchion.stores.wire.messages import Method
from stanchion.stores.wire.transport import PINGS, REPLY_BYTES, REQUEST_BYTES

_OPTIONS = [
    ("grpc.max_send_message_length", REQUEST_BYTES),
    ("grpc.max_receive_message_length", REPLY_BYTES),
    *PINGS,
    ("grpc.enable_retries", 0),  # which call may be repeated, and how, is known here
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

_of_parents: list[object] = []
"""Channels and calls of a forked process's parent: they can't be closed there, so they are kept."""

Call = Callable[..., Any]


class Channels:
    """Opens channels on first use, after a fork too; begins with any host, and stays with one that answers."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.metadata = (("authorization", f"Bearer {address.token}"),) if address.token else ()
        self._channels: dict[str, grpc.Channel] = {}
        self._calls: dict[tuple[str, str], Call] = {}
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without channels."""
        if self._channels:
            _of_parents.append((self._channels, self._calls))
        self._channels, self._calls = {}, {}
        self._lock = threading.Lock()
        self.first = random.randrange(len(self.address.hosts))  # noqa: S311 - spreading load

    def hosts(self) -> list[str]:
        """Return all hosts, the one that answered last first."""
        hosts, first = self.address.hosts, self.first
        return [*hosts[first:], *hosts[:first]]

    def avoid(self, host: str) -> None:
        """Begin with the host after this one from now on, if this one was the first."""
        if self.hosts()[0] == host:
            self.first = (self.first + 1) % len(self.address.hosts)

    def keep(self, call: object) -> None:
        """Keep what belongs to the parent of a forked process, as it can't be ended there."""
        if call is not None:
            _of_parents.append(call)

    def prefer(self, host: str) -> None:
        """Begin with this host from now on."""
        self.first = self.address.hosts.index(host)

    def call(self, host: str, method: Method) -> Call:
        """Return the callable of a method, which takes and returns bytes."""
        found = self._calls.get((host, method.name))
        if found is None:
            with LIBRARY.used(), self._lock:
                channel = self._channels.get(host) or self._channels.setdefault(host, self._opened(host))
                know_forks()
                found = self._calls[host, method.name] = _callable(channel, method)
        return found

    def is_open(self, host: str, method: Method, call: Call) -> bool:
        """Return whether this is still the callable of an open channel; gRPC has no code for a closed one."""
        return self._calls.get((host, method.name)) is call

    def close(self) -> None:
        """Close all channels; a later call opens them again."""
        with self._lock:
            channels, self._channels, self._calls = self._channels, {}, {}
        with LIBRARY.used():
            for channel in channels.values():
                channel.close()

    def _opened(self, host: str) -> grpc.Channel:
        address = self.address
        compression = grpc.Compression.Gzip if address.compress else None
        if not address.secure:
            return grpc.insecure_channel(host, _OPTIONS, compression)
        credentials = grpc.ssl_channel_credentials(
            contents_of(address.ca, "ca"), contents_of(address.key, "key"), contents_of(address.cert, "cert")
        )
        named = [("grpc.ssl_target_name_override", address.name)] if address.name else []
        return grpc.secure_channel(host, credentials, _OPTIONS + named, compression)


def _callable(channel: grpc.Channel, method: Method) -> Call:
    if method.requests:
        return channel.stream_stream(method.path)
    if method.replies:
        return channel.unary_stream(method.path)
    return channel.unary_unary(method.path)
