"""The stream of one receiver to one manager: opened again, with a hello, whenever it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Self

import grpc

from stanchion.core.backoff import Backoff
from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.streams import Stream
from stanchion.stores.grpc.receiving.guard import stamp
from stanchion.stores.grpc.receiving.receiver import Link, Receiver
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.wire.jobs import JOB
from stanchion.stores.wire.messages import METHODS, pb, read, written
from stanchion.stores.wire.outcomes import HELD, LANES, LARGEST, WORKER_ROW, to_message

log = logging.getLogger("stanchion.grpc")

_METHOD: Final = METHODS["Queues.Receive"]
_STAMPS: Final = 6
"""Stamps in a lease of managers."""

_LEASE: Final = 5.0
_LONGEST_PAUSE: Final = 5.0


class _Ups:
    """The messages of one call to a manager, taken by a thread of gRPC: what there is to say, at least a stamp."""

    def __init__(self, stream: ReceiveStream) -> None:
        self._stream, self._receiver, self._link = stream, stream.receiver, stream.link
        self._ended = self._begun = False
        self._capacity: int | None = None
        self._thread: threading.Thread | None = None
        self._last = False
        self.report = False
        """The manager has asked for the jobs of the receiver."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._thread = threading.current_thread()
        with self._receiver.changed:
            if self._begun:
                self._receiver.changed.wait_for(self.has_news, self._stream.lease / _STAMPS)
            if self._ended or self._last:
                raise StopIteration
            return written(self._next())

    def end(self) -> None:
        """Send nothing more: the call has ended."""
        with self._receiver.changed:
            self._ended = True
            self._receiver.changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def has_news(self) -> bool:
        """Return True if there is something to say before the next stamp."""
        receiver, capacity = self._receiver, self._stream.capacity()
        wanted = capacity > (self._capacity or 0) or (receiver.stopping and capacity != self._capacity)
        news = self.report or self._link.asks or self._link.outgoing
        return bool(self._ended or news or receiver.leaving or wanted)

    def _next(self) -> pb.Up:
        receiver = self._receiver
        self._link.asks = False
        up = pb.Up(stamp_us=stamp())
        size = 0
        while self._link.outgoing and size < LARGEST:
            up.outcomes.append(message := to_message(self._link.outgoing.popleft()))
            size += message.ByteSize()
        if self.report or not self._begun:
            up.hello.CopyFrom(self._hello(answer=self._begun))
            self.report, self._begun = False, True
        if (capacity := self._stream.capacity()) != self._capacity:
            up.capacity = self._capacity = capacity
        if receiver.leaving and not self._link.outgoing:
            up.goodbye, self._last = receiver.empty, True
        return up

    def _hello(self, *, answer: bool) -> pb.Hello:
        row, feeding = self._receiver.row, self._receiver.feeding
        return pb.Hello(
            receiver=self._receiver.id,
            queues=feeding.queues,
            lanes=LANES.carry(feeding.lanes),
            holding=HELD.carry(self._receiver.holding()),
            answer=answer,
            worker=WORKER_ROW.carry(row),
        )


class ReceiveStream:
    """Keeps a stream to a manager in a separate thread, until `end`."""

    def __init__(
        self, channels: Channels, calls: Calls, receiver: Receiver, host: str, managers: Callable[[], int]
    ) -> None:
        self._calls, self._host, self._managers = calls, host, managers
        self.receiver, self.link = receiver, Link()
        self.lease = _LEASE
        self.over = False
        self._ending = threading.Event()
        self._stream = Stream(channels, _METHOD)

    def capacity(self) -> int:
        """Return how many jobs this manager may have sent in all: each gets the same share of the room."""
        share = -(-self.receiver.room() // max(1, self._managers()))
        return self.link.jobs + share

    def run(self) -> None:
        """Open the stream, again and again."""
        backoff = Backoff(0.05, _LONGEST_PAUSE)
        try:
            while not (self._ending.is_set() or self.receiver.leaving):
                try:
                    self._exchange(backoff)
                except StanchionError as error:
                    pause = backoff.failed() if isinstance(error, StoreUnavailable) else _LONGEST_PAUSE
                    log.info("no jobs from the manager %s, next try in %.1f s: %s", self._host, pause, error)
                    self._ending.wait(pause)
        finally:
            self.over = True

    def end(self) -> None:
        """End the stream: the manager is gone."""
        self._ending.set()
        self._stream.close()

    def begin_again(self) -> None:
        """Say hello once more, in a new stream."""
        self._stream.cancel()

    def _exchange(self, backoff: Backoff) -> None:
        """Say hello, then process messages to the end of the stream; raise its error."""
        ups = _Ups(self)

        def take(data: bytes) -> None:
            self._take(read(pb.Down, data), ups)
            backoff.succeeded()

        try:
            self._stream.read(self._host, ups, take, after=ups.end)
        except grpc.RpcError as error:
            if not self._ending.is_set():
                raise self._calls.failure(self._host, error) from None
        finally:
            with self.receiver.changed:
                self.receiver.cut(self.link)

    def _take(self, down: pb.Down, ups: _Ups) -> None:
        receiver, link = self.receiver, self.link
        rows = list(map(JOB.taken, down.jobs))
        with receiver.changed:
            if down.lease_us:
                self.lease, link.up = down.lease_us / SECOND, True
            if down.settled or down.lost:
                receiver.confirmed(link, HELD.take(down.settled), HELD.take(down.lost))
            if down.heard_us:
                receiver.answered(link, down.heard_us, down.lease_left_us, self.lease)
            late = receiver.epochs.late(down)
            if any(late):
                log.warning("refused %d jobs that the manager %s has sent too late", sum(late), self._host)
            for one in down.slices:
                if not receiver.epochs.is_old(one):
                    receiver.owned(link, one.queue, one.lanes.first, one.lanes.last)
            receiver.take_in(link, rows, late)
            ups.report |= down.report
            if down.draining:
                link.up = False
            # The shares of the other managers may have grown, too; else a wake-up costs as much as a job.
            if self._managers() > 1 or ups.has_news():
                receiver.changed.notify_all()
        if down.cancel:
            receiver.stop_jobs()


def wait_for_end(streams: list[ReceiveStream], seconds: float) -> None:
    """Wait until streams have said goodbye; end slow ones."""
    deadline = time.monotonic() + seconds
    while any(not one.over for one in streams) and time.monotonic() < deadline:
        time.sleep(0.005)
    for one in streams:
        if not one.over:
            one.end()
