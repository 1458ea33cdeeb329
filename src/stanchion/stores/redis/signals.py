"""Waiting for work by blocking reads of the streams of signals.

Each write that brings work adds an entry to its queue's stream. A listener begins at the last entry of the moment
at which it was made, and each read begins after the last entry of the read before it: what is added between two
waits ends the second one at once, whoever else reads, and however short the stream is kept.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from stanchion.stores.redis.server import Server

log = logging.getLogger("stanchion.redis")

_BLOCK_SECONDS = 30.0
_LONGEST_PAUSE = 5.0


class StreamListener:
    """Waits on the streams of some queues. Not for several threads at once, but for `wake`."""

    def __init__(self, server: Server, streams: Sequence[str]) -> None:
        self._server = server
        # In a cluster the streams lie on several nodes, and one read covers one slot.
        groups = [[stream] for stream in streams] if server.address.cluster else [list(streams)]
        self._reads = [BlockingRead(server, group) for group in groups if group]
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closed = False
        self._retry_at, self._pause = 0.0, 0.1
        self._connect()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds; return True when a sign ended the wait."""
        end = time.monotonic() + timeout
        while not self._closed:
            if any(read.socket is None for read in self._reads) and time.monotonic() >= self._retry_at:
                self._connect()
            self._go_on()
            ready = self._ready(max(0.0, end - time.monotonic()))
            signs = [self._sign(descriptor) for descriptor in ready]
            if any(signs):
                return True
            if time.monotonic() >= end:
                return False
        return True

    def wake(self) -> None:
        """End the current wait, or the next one."""
        with suppress(OSError):  # full: it will wake; closed: nobody waits
            os.write(self._waker, b"!")

    def close(self) -> None:
        """Stop listening."""
        if not self._closed:
            self._closed = True
            for read in self._reads:
                read.close()
            os.close(self._woken)
            os.close(self._waker)

    def _ready(self, seconds: float) -> list[int]:
        polled = select.poll()
        polled.register(self._woken, select.POLLIN)
        for read in self._reads:
            if read.socket is not None:
                polled.register(read.socket, select.POLLIN)
            else:
                seconds = min(seconds, max(0.0, self._retry_at - time.monotonic()))
        return [descriptor for descriptor, _ in polled.poll(seconds * 1000)]

    def _go_on(self) -> None:
        for read in self._reads:
            try:
                read.go_on()
            except (RedisError, OSError) as error:
                self._lost(read, error)

    def _sign(self, descriptor: int) -> bool:
        if descriptor == self._woken:
            os.read(self._woken, 4096)
            return True
        (read,) = (one for one in self._reads if one.socket is not None and one.socket.fileno() == descriptor)
        try:
            return read.answer()
        except (RedisError, OSError) as error:
            self._lost(read, error)
            return False

    def _lost(self, read: BlockingRead, error: Exception) -> None:
        read.close()
        self._failed(error)

    def _connect(self) -> None:
        try:
            for read in self._reads:
                if read.socket is None:
                    read.begin()
            self._pause = 0.1
        except (RedisError, OSError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + self._pause
        reason = self._server.address.without_password(str(error))
        log.warning("not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", reason, self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class BlockingRead:
    """One read that blocks on its own connection, begun anew whenever it is answered."""

    def __init__(self, server: Server, streams: list[str]) -> None:
        self._server, self._streams = server, streams
        self._after: dict[str, str] = {}
        self._connection: Any = None
        self._sent = False

    @property
    def socket(self) -> Any:
        """The socket on which the answer comes; None while there is no connection."""
        return None if self._connection is None else self._connection._sock

    def begin(self) -> None:
        """Connect, and read from where the last read ended; at first from the end of the streams."""
        pool = self._server.pool_of(self._streams[0])
        connection = pool.connection_class(**pool.connection_kwargs)
        connection.connect()
        self._connection = connection
        try:
            for stream in self._streams:
                if stream not in self._after:
                    connection.send_command("XREVRANGE", stream, "+", "-", "COUNT", 1)
                    last = connection.read_response()
                    self._after[stream] = last[0][0].decode() if last else "0-0"
            self._send()
        except BaseException:
            self.close()
            raise

    def answer(self) -> bool:
        """Take the answer; return True when it brought an entry."""
        found = self._connection.read_response()
        for stream, entries in found.items() if isinstance(found, dict) else found or ():
            self._after[stream.decode()] = entries[-1][0].decode()
        self._sent = False
        return bool(found)

    def go_on(self) -> None:
        """Read from where the last answer ended, unless there is a read under way or no connection."""
        if self._connection is not None and not self._sent:
            self._send()

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(RedisError, OSError):
                connection.disconnect()

    def _send(self) -> None:
        self._sent = True
        after = [self._after[stream] for stream in self._streams]
        self._connection.send_command("XREAD", "BLOCK", int(_BLOCK_SECONDS * 1000), "STREAMS", *self._streams, *after)


def listen(server: Server, streams: Iterable[str]) -> StreamListener:
    """Return a listener on these streams."""
    return StreamListener(server, sorted(streams))
