"""The stream of pushes: opened when a push waits, at the next manager if one is away, ended when idle."""

from __future__ import annotations

import random
import threading
import time
from typing import Final, Self

import grpc

from stanchion.core.backoff import Backoff
from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.streams import Stream
from stanchion.stores.grpc.pushing.buffer import Buffer
from stanchion.stores.wire.messages import METHODS, pb, read

_METHOD: Final = METHODS["Queues.PushStream"]
_IDLE_SECONDS: Final = 60.0
_STREAM_SECONDS: Final = 300.0
"""Age at which a stream stops sending and another one opens, so that added managers get their share."""

_SPARE_SECONDS: Final = 120.0
"""Time for the last answers."""


class _Requests:
    """The messages of one stream, taken from the buffer by a thread of gRPC."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer, self._ended = buffer, False
        self._thread: threading.Thread | None = None
        self._until = time.monotonic() + _STREAM_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._thread = threading.current_thread()
        data = self._buffer.next(self._is_over, _IDLE_SECONDS)
        if data is None:
            raise StopIteration
        return data

    def end(self) -> None:
        """Take no more: what the buffer returns from now on belongs to another stream. The call has ended."""
        with self._buffer.changed:
            self._ended = True
            self._buffer.changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _is_over(self) -> bool:
        return self._ended or time.monotonic() > self._until


class PushStream:
    """Sends the waiting pushes of a buffer, in a separate thread, until none waits."""

    def __init__(self, channels: Channels, calls: Calls, buffer: Buffer) -> None:
        self._channels, self._calls, self._buffer = channels, calls, buffer
        self._stream = Stream(channels, _METHOD)
        self.over = False
        """True once it takes no more pushes; look under the lock of the buffer."""
        self.failure: StoreUnavailable | None = None
        """Why the last manager could not be used; None if it has answered since."""

    def run(self) -> None:
        """Send and receive until nothing waits."""
        backoff = Backoff(0.01, 0.5)
        while self._goes_on():
            host = self._channels.hosts()[0]
            try:
                self._exchange(host, backoff)
            except StanchionError as error:
                if not isinstance(error, StoreUnavailable) or error.lasting:
                    self._buffer.refuse(error)
                    continue
                self.failure = error
                self._channels.avoid(host)
                time.sleep(backoff.failed())

    def cancel(self) -> None:
        """End the stream to the present manager; unanswered pushes go to the next one."""
        self._stream.cancel()

    @property
    def opened(self) -> bool:
        """True once a manager was called."""
        return self._stream.opened

    def _goes_on(self) -> bool:
        with self._buffer.changed:
            self.over = self._buffer.empty
            return not self.over

    def _exchange(self, host: str, backoff: Backoff) -> None:
        """Send pushes to a manager and pass its answers on, to the end of the stream; raise its error."""
        requests = _Requests(self._buffer)

        def take(data: bytes) -> None:
            if (error := self._buffer.answer(read(pb.PushReply, data))) is not None:
                raise error
            backoff.succeeded()
            self.failure = None

        try:
            self._stream.read(host, requests, take, seconds=_STREAM_SECONDS + _SPARE_SECONDS, after=requests.end)
        except grpc.RpcError as error:
            raise self._calls.failure(host, error) from None
        finally:
            self._buffer.give_back()
