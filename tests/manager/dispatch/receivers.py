"""A scripted receiver: it runs jobs, keeps outcomes until they are confirmed, and guards against late sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.dispatch.receivers.receiver import Guard, Sent
from stanchion.manager.leadership.owner import Owned
from stanchion.stores.records.jobs import SECOND, JobRow, Lease
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.wire.outcomes import Refused
from tests.manager.dispatch.scene import LEASE, QUEUE
from tests.manager.dispatch.virtual import now


class Stream:
    """A stream to one engine: what the engine sees of the process."""

    def __init__(self, process: Process, engine: Engine) -> None:
        self.process, self.engine, self.open = process, engine, True
        self.id, self.worker = process.id, process.worker
        self.queues, self.lanes, self.order = process.queues, process.lanes, process.order
        self.ended: str | None = None
        self.settled: list[Lease] = []
        self.lost: list[Lease] = []
        self.newly = 0
        self.answers: list[Guard] = []
        self.stopped: list[Lease] = []
        self.reports: list[Sequence[Owned]] = []
        self.messages: list[list[str]] = []

    @property
    def capacity(self) -> int:
        return self.process.capacity

    def _deliver(self, take: Callable[..., None], *args: Any) -> None:
        def deliver() -> None:
            if self.open:
                take(self, *args)

        asyncio.get_running_loop().call_later(self.process.pipe, deliver)

    def send(self, jobs: Sequence[Sent], guard: Guard) -> None:
        self.messages.append([job.row.id for job in jobs])
        self._deliver(self.process.take, jobs, guard)

    def answer(self, guard: Guard) -> None:
        self.answers.append(guard)

    def confirm(self, settled: Sequence[Lease], lost: Sequence[Lease], newly: int) -> None:
        self.settled += settled
        self.lost += lost
        self.newly += newly
        for lease in (*settled, *lost):
            self.process.unconfirmed.pop(lease, None)

    def cancel(self, held: Sequence[Lease]) -> None:
        self.stopped += held

    def report(self, owned: Sequence[Owned]) -> None:
        self.reports.append(owned)
        self._deliver(self.process.answer, owned)

    def end(self, reason: str) -> None:
        self.ended, self.open = reason, False


class Process:
    """A receiver's process. `work`: seconds that a job takes; None: it never ends. `pipe`: of messages down to it."""

    def __init__(
        self,
        capacity: int = 10,
        *,
        work: float | None = 0.005,
        worker: str | None = None,
        queues: Sequence[str] = (QUEUE,),
        lanes: Mapping[str, tuple[int, int]] | None = None,
        pipe: float = 0.0005,
        guarded: bool = True,
        order: str = "fair",
    ) -> None:
        self.id, self.worker = uuid4().hex, uuid4().hex if worker is None else worker
        self.capacity, self.work, self.pipe, self.guarded = capacity, work, pipe, guarded
        self.queues, self.lanes, self.order = tuple(queues), lanes or {}, order
        self.streams: list[Stream] = []
        self.holding: dict[Lease, JobRow] = {}
        self.unconfirmed: dict[Lease, Outcome] = {}
        self.came_by: dict[str, Stream] = {}
        self.began: list[str] = []
        """The ids of the jobs that it began, in order."""
        self.refused: list[str] = []
        self.epochs: dict[tuple[str, int], int] = {}
        self.mute = False
        self.outcome: Callable[[JobRow], Outcome] = lambda row: Commit(row.lease)

    def connect(self, engine: Engine) -> Stream:
        """Open a stream; say hello as receivers do: first all outcomes not yet confirmed."""
        stream = Stream(self, engine)
        self.streams.append(stream)
        if self.unconfirmed:
            engine.outcomes(stream, list(self.unconfirmed.values()))
        engine.hello(stream, list(self.holding), answer=False)
        engine.heard(stream, self.clock())
        self.tasks = [*getattr(self, "tasks", ()), asyncio.create_task(self._stamp(stream))]
        return stream

    def clock(self) -> int:
        return int((now() - 77) * SECOND)

    async def _stamp(self, stream: Stream) -> None:
        while stream.open:
            await asyncio.sleep(LEASE / 6)
            if not self.mute and stream.open:
                stream.engine.heard(stream, self.clock())

    # -- messages

    def take(self, stream: Stream, jobs: Sequence[Sent], guard: Guard) -> None:
        late = guard.heard is None or self.clock() > guard.heard + guard.lease_left
        refused = []
        for job in jobs:
            known = self.epochs.get((job.row.queue, job.slice), 0)
            if self.guarded and (late or job.epoch < known):
                refused.append(job.row.lease)
                continue
            self.epochs[job.row.queue, job.slice] = max(known, job.epoch)
            self.holding[job.row.lease] = job.row
            self.came_by[job.row.id] = stream
            self.began.append(job.row.id)
            if self.work is not None:
                asyncio.get_running_loop().call_later(self.work, self.finish, job.row)
        if refused:
            self.refused += [lease.id for lease in refused]
            stream.engine.outcomes(stream, [Refused(lease) for lease in refused])

    def finish(self, row: JobRow) -> None:
        """End a job, and say so."""
        if self.holding.pop(row.lease, None) is not None:
            self.unconfirmed[row.lease] = self.outcome(row)
            self.tell(row.lease, 0)

    def tell(self, lease: Lease, number: int) -> None:
        """Report an outcome by the stream of its job; by another one, if it is not confirmed after a second."""
        came_by = self.came_by.get(lease.id)
        streams = sorted((one for one in self.streams if one.open), key=lambda one: one is not came_by)
        if streams and (outcome := self.unconfirmed.get(lease)) is not None:
            stream = streams[number % len(streams)]
            stream.engine.outcomes(stream, [outcome])
            if len(streams) > 1:
                asyncio.get_running_loop().call_later(1.0, self.tell, lease, number + 1)

    def answer(self, stream: Stream, owned: Sequence[Owned]) -> None:
        for one in owned:
            key = (one.queue, one.slice)
            self.epochs[key] = max(self.epochs.get(key, 0), one.epoch)
        if self.unconfirmed:
            stream.engine.outcomes(stream, list(self.unconfirmed.values()))
        stream.engine.hello(stream, list(self.holding), answer=True)

    # -- ends

    def cut(self, stream: Stream | None = None, *, goodbye: bool = False) -> None:
        """Lose the connection."""
        for one in self.streams if stream is None else [stream]:
            if one.open:
                one.open = False
                one.engine.gone(one, goodbye=goodbye)

    def die(self) -> None:
        """End the process with all that it has."""
        self.holding.clear()
        self.unconfirmed.clear()
        self.cut()
