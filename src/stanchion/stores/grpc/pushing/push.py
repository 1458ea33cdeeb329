"""Pushes from any thread of this process, on a stream that they share."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import StoreUnavailable
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.pieces import Pieces
from stanchion.stores.grpc.pushing.buffer import MESSAGE_BYTES, MESSAGE_JOBS, MOST_BYTES, MOST_JOBS, Buffer, Push
from stanchion.stores.grpc.pushing.stream import PushStream
from stanchion.stores.records.calls import seconds_for
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.wakeup.broadcast import started


class Pushing:
    """Stores pushes by a stream, and large batches by separate calls."""

    def __init__(self, channels: Channels, calls: Calls, pieces: Pieces) -> None:
        self._channels, self._calls, self._pieces = channels, calls, pieces
        self._stream: PushStream | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without a stream; also after a fork, where the call of the stream must not be touched."""
        self._channels.keep(self._stream)
        self._buffer, self._stream = Buffer(), None

    def push(self, jobs: Sequence[NewJob]) -> list[Pushed]:
        """Store jobs, in order; return once they are stored.

        Raises the error of these jobs alone, and StoreUnavailable if no manager answers in time, or if none has
        answered and too much waits already.
        """
        if not jobs:
            return []
        seconds = seconds_for(len(jobs))
        if len(jobs) > MESSAGE_JOBS or len((push := Push(jobs, seconds)).data) > MESSAGE_BYTES:
            return self._pieces.all("push", "jobs", jobs)
        stream = self._added(push)
        if stream is None:
            return self._pieces.all("push", "jobs", jobs)
        try:
            self._wait(push, stream, seconds)
        except BaseException:
            self._buffer.withdraw(push, StoreUnavailable("the push was interrupted"))
            raise
        return push.result()

    def close(self) -> None:
        """End the stream; a later push opens another one."""
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def _added(self, push: Push) -> PushStream | None:
        """Let a push wait for the stream; return that, or None if there is no room though managers answer."""
        with self._buffer.changed:
            stream = self._stream
            if self._buffer.add(push):
                if stream is None or stream.over:
                    stream = self._stream = PushStream(self._channels, self._calls, self._buffer)
                    started(stream.run, "stanchion-push")
                return stream
        if stream is not None and (failure := stream.failure) is not None:
            raise StoreUnavailable(
                f"no manager answers, and {MOST_JOBS:,} jobs or {MOST_BYTES // 2**20} MiB wait for one: {failure}"
            )
        return None

    def _wait(self, push: Push, stream: PushStream, seconds: float) -> None:
        # A manager that hangs leaves time for the others.
        share = seconds / len(self._channels.hosts())
        while not push.wait(min(share, max(0.0, push.deadline - time.monotonic()))):
            if time.monotonic() >= push.deadline:
                self._buffer.withdraw(push, stream.failure or self._late(seconds))
            elif (since := self._buffer.oldest()) is not None and time.monotonic() - since >= share:
                stream.cancel()

    def _late(self, seconds: float) -> StoreUnavailable:
        return StoreUnavailable(
            f"no manager of {self._channels.address.shown} has stored the jobs within {seconds:g} s, and one may still "
            f"do so; check that they run"
        )
