"""`Queues.Receive`: streams of receivers, between their messages and the engine.

    up:   outcomes ──► hello ──► stamp ──► capacity ──► engine
    down: jobs, outcomes that are stored, questions of the engine ──► outgoing ──► joined in few messages

An outcome that a receiver may not report, or that no store could keep, is not answered: the receiver learns why by
`Finish`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import grpc

from stanchion.errors import InvalidInput, StanchionError
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.dispatch.receivers.receiver import Guard as Bound
from stanchion.manager.dispatch.receivers.receiver import Sent
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.server import access, value_checks
from stanchion.manager.server.guard import STOPPING, CallContext, Guard, Refused
from stanchion.manager.server.known import Known
from stanchion.manager.server.own_workers import OwnWorkers
from stanchion.manager.server.pool import StoreCalls
from stanchion.manager.server.shared import asks_store, check_flows
from stanchion.manager.server.streams.outgoing import Outgoing
from stanchion.manager.server.tokens import Caller
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, Lease
from stanchion.stores.rules.lifecycle.job_checks import check_id
from stanchion.stores.wire.messages import pb, read
from stanchion.stores.wire.outcomes import HELD, LANES, WORKER_ROW, Reported, reported
from stanchion.stores.wire.statuses import Status

log = logging.getLogger("stanchion.manager")

_CAPACITY_MAX = 1_000_000


class Receivers:
    """Serves the streams of all receivers."""

    def __init__(
        self,
        store: Store,
        calls: StoreCalls,
        guard: Guard,
        engine: Engine,
        known: Known,
        workers: OwnWorkers,
        lease: float,
        read_seconds: float,
    ) -> None:
        self._store, self._calls, self._guard, self.engine, self._known = store, calls, guard, engine, known
        self._workers, self._lease, self._read_seconds = workers, lease, read_seconds
        self._open: set[ReceiverStream] = set()
        self._beginning: set[asyncio.Task[object]] = set()

    def drain(self) -> None:
        """Notify all receivers that this manager ends soon."""
        for stream in self._open:
            stream.outgoing.say(draining=True)

    def end_streams(self) -> None:
        """End all streams."""
        for reading in self._beginning:
            reading.cancel()
        for stream in list(self._open):
            stream.end(STOPPING)

    async def stream(self, context: CallContext) -> None:
        """Serve a receiver until it ends its stream, or this manager stops."""
        caller = self._guard.caller_of(context)
        access.check_role(caller, "claim")
        with self._guard.streams.taking():
            first = await self._first(context)
            stream = ReceiverStream(self._checked_hello(caller, first.hello), context)
            self._open.add(stream)
            stream.outgoing.say(lease_us=round(self._lease * SECOND))
            try:
                await self._check_worker(caller, first.hello)
                await self._take(caller, stream, first)
                await self._serve(caller, stream)
            finally:
                self._open.discard(stream)
                self.engine.gone(stream, goodbye=stream.said_goodbye)

    async def _first(self, context: CallContext) -> pb.Up:
        reading = asyncio.create_task(context.read())
        self._beginning.add(reading)
        try:
            await asyncio.wait([reading], timeout=self._read_seconds)
            if not reading.done():
                raise Refused(Status.DEADLINE_EXCEEDED, "the stream has begun with no hello in time")
            if reading.cancelled():
                raise Refused(Status.UNAVAILABLE, STOPPING)
            data = reading.result()
        finally:
            self._beginning.discard(reading)
            reading.cancel()
        if data is grpc.aio.EOF:
            raise InvalidInput("the stream has no message; begin it with a hello")
        up = read(pb.Up, data)
        if not up.HasField("hello") or up.hello.answer:
            raise InvalidInput("the first message of a stream must have a hello that is no answer")
        return up

    async def _serve(self, caller: Caller, stream: ReceiverStream) -> None:
        """Read and write until the stream ends; raise what ended it."""
        tasks = [asyncio.create_task(self._read(caller, stream)), asyncio.create_task(stream.write(self.engine))]
        ends: list[asyncio.Future[Any]] = [*tasks, stream.over]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if stream.over.done():
                raise Refused(Status.UNAVAILABLE, stream.over.result())
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            tasks[0].cancel()
            # A write is not cancelled: the stream could not be ended while gRPC has one under way.
            stream.outgoing.close()
            await asyncio.wait(tasks)
            for task in tasks:  # a receiver that was killed ends both, each with its own error; one is enough
                if not task.cancelled():
                    task.exception()

    async def _read(self, caller: Caller, stream: ReceiverStream) -> None:
        while (data := await stream.context.read()) is not grpc.aio.EOF:
            up = read(pb.Up, data)
            if up.HasField("hello") and not up.hello.answer:
                raise InvalidInput("a stream has one hello, but for answers to reports")
            if up.HasField("hello") and up.hello.receiver != stream.id:
                raise InvalidInput("an answer must come from the receiver of the stream")
            await self._take(caller, stream, up, texts=b"\0" in data)

    async def _take(self, caller: Caller, stream: ReceiverStream, up: pb.Up, *, texts: bool = True) -> None:
        """Take in a message; `texts`: some of its texts may have a null character."""
        if up.outcomes:
            acceptable = self._acceptable(caller, up.outcomes, texts=texts)
            self.engine.outcomes(stream, await self._known_ones(caller, acceptable))
        if up.HasField("capacity"):
            stream.asked = max(0, min(up.capacity, _CAPACITY_MAX))
        if up.HasField("hello"):
            self.engine.hello(stream, HELD.take(up.hello.holding), answer=up.hello.answer)
        self.engine.heard(stream, up.stamp_us)
        if up.HasField("capacity"):
            self.engine.changed(stream)
        stream.said_goodbye |= up.goodbye

    def _checked_hello(self, caller: Caller, hello: pb.Hello) -> pb.Hello:
        check_id(hello.receiver, "a receiver")
        for queue in hello.queues:
            value_checks.check("listen", {"queue": queue})
        access.check(self._store, caller, "receive", {"queues": list(hello.queues)})
        if hello.HasField("worker"):
            args = {"workers": [WORKER_ROW.take(hello.worker)]}
            value_checks.check("beat", args)
            access.check(self._store, caller, "beat", args)
        return hello

    async def _check_worker(self, caller: Caller, hello: pb.Hello) -> None:
        """Raise NotPermitted if the worker of a receiver is one of others: its jobs would go to this receiver."""
        if caller.queues is not None and hello.HasField("worker"):
            args = {"workers": [WORKER_ROW.take(hello.worker)]}
            await self._calls.run(partial(self._workers.check, caller, "beat", args))

    def _acceptable(self, caller: Caller, messages: Sequence[pb.Outcome], *, texts: bool) -> list[Reported]:
        """Return the outcomes that the caller may report."""
        try:
            found = list(map(reported, messages))
            args = {"outcomes": found}
            if texts:
                value_checks.check_texts(found)
            value_checks.check("settle", args)
            access.check(self._store, caller, "settle", args)
        except StanchionError as error:
            if len(messages) > 1:  # some of them may be good
                return [one for message in messages for one in self._acceptable(caller, [message], texts=texts)]
            _log_left(caller, messages[0].id, error)
            return []
        return found

    async def _known_ones(self, caller: Caller, outcomes: list[Reported]) -> list[Reported]:
        """Return the outcomes that name only existing semaphores and partitions, and flows of the caller."""
        args = {"outcomes": outcomes}
        if not (self._known.asks_store("settle", args) or asks_store(caller, "settle", args)):
            return outcomes

        def known() -> list[Reported]:
            found = []
            for one in outcomes:
                try:
                    check_flows(self._store, caller, "settle", {"outcomes": [one]})
                    self._known.check("settle", {"outcomes": [one]})
                except StanchionError as error:
                    _log_left(caller, one.lease.id, error)
                else:
                    found.append(one)
            return found

        return await self._calls.run(known)


def _log_left(caller: Caller, job: str, error: StanchionError) -> None:
    log.warning("an outcome of %s for job %.40r is left: %s", caller.name, job, error)


class ReceiverStream:
    """One stream of a receiver, as the engine sees it."""

    def __init__(self, hello: pb.Hello, context: CallContext) -> None:
        self.context = context
        self.id: str = hello.receiver
        self.worker: str = hello.worker.id if hello.HasField("worker") else ""
        self.queues = dict.fromkeys(hello.queues)
        self.order: str = hello.worker.order or "fair"
        self.lanes: Mapping[str, tuple[int, int]] = {
            one.queue: (one.first, one.last) for one in LANES.take(hello.lanes)
        }
        self.asked = 0
        """How many jobs the receiver takes in all."""
        self.said_goodbye = False
        self.outgoing = Outgoing()
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, once this manager ends the stream."""

    @property
    def capacity(self) -> int:
        """See `Receiver`; none while too many bytes are unsent."""
        return 0 if self.outgoing.full else self.asked

    def send(self, jobs: Sequence[Sent], guard: Bound) -> None:
        """See `Receiver`."""
        self.outgoing.send(jobs, guard)

    def answer(self, guard: Bound) -> None:
        """See `Receiver`."""
        self.outgoing.answer(guard)

    def confirm(self, settled: Sequence[Lease], lost: Sequence[Lease], newly: int) -> None:
        """See `Receiver`."""
        self.outgoing.confirm(settled, lost, newly)

    def cancel(self, held: Sequence[Lease]) -> None:
        """See `Receiver`."""
        self.outgoing.cancel(held)

    def report(self, owned: Sequence[Owned]) -> None:
        """See `Receiver`."""
        self.outgoing.report(owned)

    def end(self, reason: str) -> None:
        """See `Receiver`."""
        if not self.over.done():
            self.over.set_result(reason)

    async def write(self, engine: Engine) -> None:
        """Write pending messages."""
        while (down := await self.outgoing.next()) is not None:
            await self.context.write(down)
            if self.outgoing.has_room_again:
                engine.changed(self)
