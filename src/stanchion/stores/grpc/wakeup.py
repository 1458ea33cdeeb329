"""Wake-up by a stream of signs from a manager.

A thread keeps one stream for all queues with listeners. A listener that wants more queues gets another stream, which
replaces the first one. A sign may still be under way on a stream that is replaced or lost, so the opening of the next
one counts as a sign for all listeners. A stream without listeners ends with its next message, or after some minutes.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable

import grpc

from stanchion.core.backoff import Backoff
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.streams import Stream
from stanchion.stores.wakeup.broadcast import started
from stanchion.stores.wakeup.listeners import READY_SECONDS, EventListener, Listeners
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs
from stanchion.stores.wire.messages import METHODS, pb, read, written
from stanchion.stores.wire.store import signs_in

log = logging.getLogger("stanchion.grpc")

_LISTEN = METHODS["Queues.Listen"]
_STREAM_SECONDS = 300.0


class StreamedSignals:
    """Wakes the listeners of this process by the signs of managers."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.listeners = Listeners(connected=lambda _listener: self._connected)
        self._current: Subscription | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without a stream; also after a fork, where the call of the stream must not be touched."""
        self.lock = threading.Lock()
        self.channels.keep(self._current)
        self._current = None

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> EventListener:
        """Return a listener for signs of these queues, and with `finished` for ends of jobs."""
        listener = self.listeners.listen(queues, finished, interchangeable=interchangeable)
        wanted = Signs(listener.queues, listener.finished or frozenset())
        with self.lock:
            current = self._current
            if current is None or current.over or not current.covered.covers(wanted):
                current = self._current = Subscription(self, current)
                started(current.run, "stanchion-listen")
        # A push from here on gives a sign. If the stream does not open soon, polling must do.
        current.ready.wait(READY_SECONDS)
        return listener

    def is_current(self, subscription: Subscription) -> bool:
        """Return whether it is the one that serves the listeners."""
        return self._current is subscription

    def close(self) -> None:
        """End all waits, and the stream."""
        self.listeners.close()
        with self.lock:
            current, self._current = self._current, None
        if current is not None:
            current.cancel()

    @property
    def _connected(self) -> bool:
        current = self._current
        return current is not None and current.connected


class Subscription:
    """The stream for some queues, and its thread. `before`: the one that it replaces."""

    def __init__(self, signals: StreamedSignals, before: Subscription | None) -> None:
        self._signals, self._before = signals, before
        self.covered = signals.listeners.wanted()
        self.ready = threading.Event()
        """Set once every later push gives a sign, and at its end."""
        self.connected = False
        """True while signs of all processes arrive, as far as is known."""
        self.over = False
        self._missed = before is not None
        self._stream = Stream(signals.channels, _LISTEN)

    def run(self) -> None:
        """Receive signs while there are listeners and no other stream replaces this one."""
        backoff, channels = Backoff(), self._signals.channels
        try:
            while self._goes_on():
                host = channels.hosts()[0]
                try:
                    self._receive(host)
                    self.connected, self._missed = False, True  # another thread forks, or closes the channels
                except grpc.RpcError as error:
                    was, self.connected, self._missed = self.connected, False, True
                    if was and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                        backoff.succeeded()  # its time was over: continue with a new one
                        continue
                    if not self._goes_on():
                        return
                    pause = backoff.failed()
                    reason = channels.address.without_token(" ".join(str(error.details()).split()))
                    log.warning("not listening for wake-ups (%s); polling meanwhile, next try in %.1f s", reason, pause)
                    channels.avoid(host)
                    time.sleep(pause)
        finally:
            self._end()

    def cancel(self) -> None:
        """End the stream."""
        self._stream.close()

    def _goes_on(self) -> bool:
        with self._signals.lock:
            wanted = self._signals.listeners.wanted()
            if self._signals.is_current(self) and wanted != NO_SIGNS:
                if self._stream.opened:
                    self.covered = wanted
                return True
            self.over = True
            return False

    def _end(self) -> None:
        self.over, self.connected = True, False
        self.ready.set()

    def _receive(self, host: str) -> None:
        """Read the signs of a stream to its end, which is an error."""
        queues, finished = self.covered
        request = pb.ListenRequest(queues=sorted(queues or ()), finished=pb.Names(names=sorted(finished or ())))
        seconds = _STREAM_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 - spreading load
        first = True

        def take(data: bytes) -> None:
            nonlocal first
            wake = read(pb.Wake, data)
            self.connected = wake.connected
            if first:
                first = False
                self._opened()
            else:
                self._pass_on(wake)
            if not self._goes_on():
                self.cancel()

        self._stream.read(host, written(request), take, seconds=seconds)

    def _opened(self) -> None:
        if self._missed:
            self._signals.listeners.wake(None, None)
        self._missed = False
        self.ready.set()
        before, self._before = self._before, None
        if before is not None:
            before.cancel()

    def _pass_on(self, wake: pb.Wake) -> None:
        if (signs := signs_in(wake)) != NO_SIGNS:
            self._signals.listeners.wake(*signs)
