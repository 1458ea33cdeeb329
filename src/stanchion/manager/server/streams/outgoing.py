"""What waits to be sent to a receiver: joined in few messages, as messages cost more than jobs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stanchion.manager.dispatch.receivers.receiver import Guard, Sent
from stanchion.manager.leadership.owner import Owned
from stanchion.stores.records.jobs import Lease
from stanchion.stores.wire.jobs import JOB
from stanchion.stores.wire.messages import build, pb, written
from stanchion.stores.wire.outcomes import HELD, LARGEST

MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of unsent jobs of one receiver, from which on it gets no more: flow control does not show that it is slow."""


class Outgoing:
    """Messages to one receiver that are not written yet. In the event loop."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self._jobs: deque[bytes] = deque()
        """Messages with nothing but jobs."""
        self._guard: Guard | None = None
        self._answer: Guard | None = None
        self._settled: list[Lease] = []
        self._lost: list[Lease] = []
        self._cancel: list[Lease] = []
        self._newly = 0
        self._other: dict[str, Any] = {}
        self._some = asyncio.Event()
        self._closed = False
        self.has_room_again = False
        """True if the last message has made room: it was full before."""

    @property
    def full(self) -> bool:
        """True if so much is unsent that no more jobs should come."""
        return self.unsent_bytes >= MOST_BYTES

    def send(self, jobs: Sequence[Sent], guard: Guard) -> None:
        """Add jobs; of several guards the one that ends first holds for all that are unsent."""
        fields = [{**JOB.fields(row), "epoch": epoch, "slice": number} for row, epoch, number in jobs]
        pieces = _pieces(fields)
        self.unsent_bytes += sum(map(len, pieces))
        self._jobs += pieces
        if self._guard is None or _end(guard) < _end(self._guard):
            self._guard = guard
        self._some.set()

    def answer(self, guard: Guard) -> None:
        """Say which stamp was heard last; a later answer replaces one that is unsent."""
        self._answer = guard
        self._some.set()

    def confirm(self, settled: Sequence[Lease], lost: Sequence[Lease], newly: int) -> None:
        """Add outcomes that are stored, or can't be."""
        self._settled += settled
        self._lost += lost
        self._newly += newly
        self._some.set()

    def cancel(self, held: Sequence[Lease]) -> None:
        """Add jobs that should stop."""
        self._cancel += held
        self._some.set()

    def report(self, owned: Sequence[Owned]) -> None:
        """Add the slices of this manager, and the question for the receiver's jobs."""
        slices = [
            pb.Slice(
                queue=one.queue,
                slice=one.slice,
                epoch=one.epoch,
                lanes=pb.LaneRange(queue=one.queue, first=one.lanes[0], last=one.lanes[1]),
            )
            for one in owned
        ]
        self.say(report=True, slices=slices)

    def say(self, **fields: object) -> None:
        """Add other fields of a message."""
        self._other.update(fields)
        self._some.set()

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._some.set()

    async def next(self) -> bytes | None:
        """Wait for something to send; return the next message, or None at the end."""
        await self._some.wait()
        if self._closed:
            return None
        down = pb.Down(
            settled=HELD.carry(self._settled),
            lost=HELD.carry(self._lost),
            newly=self._newly,
            cancel=HELD.carry(self._cancel),
            **self._other,
        )
        self._settled, self._lost, self._cancel, self._newly, self._other = [], [], [], 0, {}
        was_full, pieces = self.full, list[bytes]()
        if self._jobs and self._guard is not None:
            pieces = self._taken()
            # Both say the same of the session; the jobs are good until it ends for the first one of them.
            self._answer = self._answer and self._answer._replace(
                lease_left=_end(self._guard) - (self._answer.heard or 0)
            )
        if (guard := self._answer or (self._guard if pieces else None)) is not None:
            down.heard_us, down.lease_left_us = guard.heard or 0, max(0, guard.lease_left)
        self._answer = None
        self.has_room_again = was_full and not self.full
        if not self._jobs:
            self._guard = None
            self._some.clear()
        # Messages that are joined as bytes are one message with the jobs of all.
        return b"".join((written(down), *pieces))

    def _taken(self) -> list[bytes]:
        """Return the jobs that go in the next message."""
        pieces: list[bytes] = []
        size = 0
        while self._jobs and (not size or size + len(self._jobs[0]) <= LARGEST):
            pieces.append(self._jobs.popleft())
            size += len(pieces[-1])
        self.unsent_bytes -= size
        return pieces


def _pieces(jobs: Sequence[Mapping[str, object]]) -> list[bytes]:
    """Return messages with jobs, each of at most LARGEST bytes unless a single job takes more."""
    data = written(build(pb.Down, {"jobs": jobs}))
    if len(data) <= LARGEST or len(jobs) == 1:
        return [data]
    half = len(jobs) // 2
    return _pieces(jobs[:half]) + _pieces(jobs[half:])


def _end(guard: Guard) -> int:
    return (guard.heard or 0) + guard.lease_left
