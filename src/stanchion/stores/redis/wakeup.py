"""Wake-up by blocking reads of signal streams.

Each write that brings work adds an entry to its queue's stream `signals`, and each that ends jobs one to `ends`. One
thread reads all streams with listeners in the process. The first read starts at the last entry at the creation of the
listener, each further one after the last entry of the previous read. An entry added between two reads thus ends the
second one immediately, regardless of other readers and of the length of the stream.
"""

from __future__ import annotations

import logging
import os
import select
import socket as sockets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import StoreUnavailable
from stanchion.stores.redis.client.server import Server
from stanchion.stores.wakeup.broadcast import started
from stanchion.stores.wakeup.listeners import EventListener, Listeners

Entries = Sequence[tuple[bytes, dict[bytes, bytes] | list[bytes]]]
"""Entries of a stream: their ids and fields."""

log = logging.getLogger("stanchion.redis")

_BLOCK_SECONDS = 30.0
_CHECK_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

WORK, ENDS = "signals", "ends"

_ANY = "*"
"""Stands for more ended jobs than an entry names."""


class StreamSignals:
    """One thread that reads the streams of all queues with listeners, and wakes the listeners."""

    def __init__(self, server: Server, key: Callable[[str], str]) -> None:
        self._server, self._key = server, key
        self.listeners = Listeners(connected=lambda _listener: self._connected)
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without listeners; after a fork, connections and the pipe belong to the parent."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._after: dict[str, str | None] = {}
        self._waker: int | None = None
        self._changed = self._connected = False

    def announce(self, queues: Collection[str]) -> None:
        """Add an entry to the streams of these queues; what scripts write adds its own."""
        for queue in queues:
            self._server.command("XADD", self._key(queue) + WORK, "MAXLEN", "~", 64, "*", "at", 0)

    def listen(
        self, queues: Iterable[str], finished: Iterable[str] | None = None, *, interchangeable: bool = False
    ) -> EventListener:
        """Return a listener for entries of these queues, and with `finished` for ends of jobs."""
        listener = self.listeners.listen(queues, finished, interchangeable=interchangeable)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                self._thread = started(lambda: self._serve(woken), "stanchion-listen")
            new = sorted(self._streams().keys() - self._after.keys())
        last = {stream: self._last_of(stream) for stream in new}
        with self._lock:
            for stream, entry in last.items():
                self._after.setdefault(stream, entry)
            self._changed = self._changed or bool(new)
        self._wake()
        return listener

    def close(self) -> None:
        """End all waits; the thread ends by itself."""
        self.listeners.close()
        self._wake()

    def _streams(self) -> dict[str, tuple[str, str]]:
        """Return the streams with listeners, with their kind and queue."""
        wanted = self.listeners.wanted()
        work = {self._key(queue) + WORK: (WORK, queue) for queue in wanted.queues or ()}
        return work | {self._key(queue) + ENDS: (ENDS, queue) for queue in wanted.finished or ()}

    def _last_of(self, stream: str) -> str | None:
        """Return the last entry; None if the server does not answer, so that it is read on connecting."""
        try:
            last = self._server.command("XREVRANGE", stream, "+", "-", "COUNT", 1)
        except StoreUnavailable:
            return None
        return last[0][0].decode() if last else "0-0"

    def _wake(self) -> None:
        waker = self._waker
        if waker is not None:
            with suppress(OSError):  # full: it will wake; closed: it has ended
                os.write(waker, b"!")

    # -- the thread

    def _serve(self, woken: int) -> None:
        reading = Reading(self._server, woken)
        try:
            while (streams := self._wanted()) is not None:
                if self._take_changed():
                    reading.read(streams, self._after)
                self._connected = reading.connect()
                for stream, entries in reading.news(_CHECK_SECONDS):
                    self._wake_for(streams.get(stream), entries)
        finally:
            reading.close()

    def _wanted(self) -> dict[str, tuple[str, str]] | None:
        """Return the streams to read; None without listeners, and the thread must end."""
        with self._lock:
            if len(self.listeners):
                return self._streams()
            self._thread, self._after, self._connected = None, {}, False
            if self._waker is not None:
                os.close(self._waker)
                self._waker = None
            return None

    def _take_changed(self) -> bool:
        with self._lock:
            changed, self._changed = self._changed, False
            return changed

    def _wake_for(self, stream: tuple[str, str] | None, entries: Entries) -> None:
        if stream is None:
            return
        kind, queue = stream
        if kind == WORK:
            self.listeners.wake([queue])
            return
        ids = {one for _, fields in entries for one in _ids_in(fields)}
        self.listeners.wake((), None if _ANY in ids else ids)


class Reading:
    """The blocking reads of some streams, each on its own connection, and when to retry lost ones."""

    def __init__(self, server: Server, woken: int) -> None:
        self._server, self._woken = server, woken
        self._reads: list[BlockingRead] = []
        self._retry_at, self._pause = 0.0, _FIRST_PAUSE

    def read(self, streams: Iterable[str], after: dict[str, str | None]) -> None:
        """Read these streams from now on, each after its entry."""
        self._drop()
        # In a cluster the streams are on several nodes, and one read covers one slot.
        groups = [[stream] for stream in streams] if self._server.address.cluster else [list(streams)]
        self._reads = [BlockingRead(self._server, group, after) for group in groups if group]
        self._retry_at = 0.0

    def connect(self) -> bool:
        """Resume each read, connecting where necessary; return True if all are connected."""
        for read in self._reads:
            try:
                if read.socket is not None:
                    read.go_on()
                elif time.monotonic() >= self._retry_at:
                    read.begin()
            except (RedisError, OSError) as error:
                self._lost(read, error)
        connected = all(read.socket is not None for read in self._reads)
        if connected:
            self._pause = _FIRST_PAUSE
        return connected

    def news(self, seconds: float) -> list[tuple[str, Entries]]:
        """Return the streams with new entries, waiting up to `seconds` for the first."""
        polled = select.poll()
        polled.register(self._woken, select.POLLIN)
        for read in self._reads:
            if read.socket is not None:
                polled.register(read.socket, select.POLLIN)
            else:
                seconds = min(seconds, max(0.0, self._retry_at - time.monotonic()))
        ready = {descriptor for descriptor, _ in polled.poll(seconds * 1000)}
        if self._woken in ready:
            os.read(self._woken, 4096)
        found: list[tuple[str, Entries]] = []
        for read in self._reads:
            if read.socket is not None and read.socket.fileno() in ready:
                try:
                    found += read.answer()
                except (RedisError, OSError) as error:
                    self._lost(read, error)
        return found

    def close(self) -> None:
        """Drop all connections."""
        self._drop()
        os.close(self._woken)

    def _drop(self) -> None:
        for read in self._reads:
            read.close()

    def _lost(self, read: BlockingRead, error: Exception) -> None:
        read.close()
        self._retry_at = time.monotonic() + self._pause
        reason = self._server.address.without_password(str(error))
        log.warning("not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", reason, self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class BlockingRead:
    """One blocking read on its own connection, sent again after each answer."""

    def __init__(self, server: Server, streams: list[str], after: dict[str, str | None]) -> None:
        self._server, self._streams, self._after = server, streams, after
        self._connection: Any = None
        self._sent = False

    @property
    def socket(self) -> sockets.socket | None:
        """The socket that receives the answer; None without a connection."""
        return None if self._connection is None else self._connection._sock

    def begin(self) -> None:
        """Connect, and read from where the last read ended; at first from the end of the streams."""
        pool = self._server.pool_of(self._streams[0])
        connection = pool.connection_class(**pool.connection_kwargs)
        connection.connect()
        self._connection = connection
        try:
            for stream in self._streams:
                if self._after.get(stream) is None:
                    connection.send_command("XREVRANGE", stream, "+", "-", "COUNT", 1)
                    last = connection.read_response()
                    self._after[stream] = last[0][0].decode() if last else "0-0"
            self._send()
        except BaseException:
            self.close()
            raise

    def answer(self) -> list[tuple[str, Entries]]:
        """Return the streams that have new entries, with these entries."""
        found = self._connection.read_response()
        self._sent = False
        streams = found.items() if isinstance(found, dict) else found or ()
        news = [(name.decode(), entries) for name, entries in streams]
        self._after.update((name, entries[-1][0].decode()) for name, entries in news)
        return news

    def go_on(self) -> None:
        """Read from where the last answer ended, if connected and no read is pending."""
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


def _ids_in(fields: dict[bytes, bytes] | list[bytes]) -> list[str]:
    """Return the ids of an entry, whose fields and values are a list or a mapping."""
    ids = fields[b"ids"] if isinstance(fields, dict) else fields[1]
    return str(ids.decode()).split(" ")
