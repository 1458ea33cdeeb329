"""One stream to a manager at a time: opened, read to its end, and ended from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.forking import LIBRARY
from stanchion.stores.wire.messages import Method


class Opened(Protocol):
    """A call whose replies are a stream."""

    def __iter__(self) -> Iterator[bytes]: ...

    def cancel(self) -> object:
        """End it."""


class Stream:
    """Calls of a method whose replies are a stream, one after the other, in the thread that reads them."""

    def __init__(self, channels: Channels, method: Method) -> None:
        self._channels, self._method = channels, method
        self._call: Opened | None = None
        self._over = False

    @property
    def opened(self) -> bool:
        """True once it was opened for the first time."""
        return self._call is not None

    def read(
        self,
        host: str,
        request: bytes | Iterator[bytes],
        take: Callable[[bytes], None],
        *,
        seconds: float | None = None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Open it at a host, and pass its messages to `take`, up to its end; then call `after`.

        `request`: a message, or an iterator of them. Returns at its end, at a fork of the process, and if another
        thread closes the channels. Raises the error of gRPC that ends it, after `seconds` DEADLINE_EXCEEDED.
        """
        opened = None
        try:
            with LIBRARY.streaming(self._end):
                try:
                    opened = self._channels.call(host, self._method)
                    call: Opened = opened(request, timeout=seconds, metadata=self._channels.metadata)
                    self._call = call
                    if self._over:
                        self._end()
                    for data in call:
                        take(data)
                finally:
                    self._end()
                    after()
        except ValueError:
            if opened is None or self._channels.is_open(host, self._method, opened):
                raise

    def cancel(self) -> None:
        """End the present stream, if there is one."""
        with LIBRARY.used():
            self._end()

    def close(self) -> None:
        """End the present stream, and a later one as soon as it is opened."""
        self._over = True
        self.cancel()

    def _end(self) -> None:
        call = self._call
        if call is not None:
            call.cancel()
