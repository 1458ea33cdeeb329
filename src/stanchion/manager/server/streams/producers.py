"""What producers send: `Queues.Push`, and `Queues.PushStream` with many pushes on one stream.

    requests read ──► checked ──► stored together with all callers' ──► replies by `seq`

A failed push of a stream has an `Error` in its reply, and the stream continues. Up to UNDER_WAY requests of a stream
are in progress; the next one is read once one of them is answered.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

import grpc

from stanchion.errors import StanchionError
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.server import access, value_checks
from stanchion.manager.server.guard import STOPPING, CallContext, Guard, Refused
from stanchion.manager.server.known import Known
from stanchion.manager.server.pool import StoreCalls
from stanchion.manager.server.shared import asks_store, check_flows
from stanchion.manager.server.tokens import Caller
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, NewJob, Pushed
from stanchion.stores.wire.calls import CALLS
from stanchion.stores.wire.messages import pb, read, written
from stanchion.stores.wire.statuses import Status, status_of, text_of, to_message

log = logging.getLogger("stanchion.manager")

UNDER_WAY: Final = 8
"""Maximum requests of one stream in progress."""

_MOST_JOBS: Final = 500
"""Jobs of a push that is stored with others."""

_SMALL: Final = 16 * 1024
"""Bytes of a request that is checked in the event loop: quicker than a change of threads."""

_CALL: Final = CALLS["push"]


class Producers:
    """Answers the pushes of all callers."""

    def __init__(self, store: Store, calls: StoreCalls, guard: Guard, engine: Engine, known: Known) -> None:
        self._store, self._calls, self.guard, self._engine, self._known = store, calls, guard, engine, known
        self._open: set[asyncio.Task[None]] = set()

    def end_streams(self) -> None:
        """Read no more requests; the streams end once those under way are answered."""
        for reading in self._open:
            reading.cancel()

    async def push(self, caller: Caller, data: bytes) -> bytes:
        """Answer a unary push."""
        return written(await self.reply(caller, read(pb.PushRequest, data), data))

    async def stream(self, context: CallContext) -> None:
        """Answer the pushes of a stream until its client ends it, or this manager stops."""
        caller = self.guard.caller_of(context)
        access.check_role(caller, "push")
        with self.guard.streams.taking():
            stream = _Stream(self, caller, context)
            reading = asyncio.create_task(stream.read())
            self._open.add(reading)
            try:
                await asyncio.wait([reading])
                await stream.answered()
                if reading.cancelled():
                    raise Refused(Status.UNAVAILABLE, STOPPING)
                reading.result()
            finally:
                self._open.discard(reading)
                reading.cancel()
                stream.cancel()

    async def reply(self, caller: Caller, request: pb.PushRequest, data: bytes) -> pb.PushReply:
        """Check the jobs of a request, which came as `data`, and store them; return the reply."""
        checked = partial(self._checked, caller, request, data)
        jobs, claim = checked() if len(data) <= _SMALL else await self._calls.run(checked)
        args = {"jobs": jobs}
        if self._known.asks_store("push", args):
            await self._calls.run(partial(self._known.check, "push", args))
        if asks_store(caller, "push", args):
            await self._calls.run(partial(check_flows, self._store, caller, "push", args))
        if len(jobs) > _MOST_JOBS or claim is not None:
            push = partial(self._store.push, jobs, None, claim, repeat=request.repeat)
            stored = await self._calls.run(push)
        else:
            stored = await self._in_time(request, jobs)
        reply = _CALL.reply(stored)
        assert isinstance(reply, pb.PushReply)  # noqa: S101 - the reply of this call
        return reply

    async def _in_time(self, request: pb.PushRequest, jobs: list[NewJob]) -> list[Pushed]:
        seconds = request.wait_us / SECOND if request.HasField("wait_us") else None
        try:
            async with asyncio.timeout(seconds):
                return await self._engine.push(jobs, repeat=request.repeat)
        except TimeoutError:
            raise Refused(
                Status.DEADLINE_EXCEEDED, f"the jobs were not stored within {seconds:g} s, and may still be"
            ) from None

    def _checked(self, caller: Caller, request: pb.PushRequest, data: bytes) -> tuple[list[NewJob], Claim | None]:
        """Return the jobs of a request, and the claim of the jobs that should start running."""
        args = _CALL.arguments(request)
        if b"\0" in data:
            value_checks.check_texts([args["jobs"], args.get("claim")])
        value_checks.check("push", args)
        access.check(self._store, caller, "push", args)
        return args["jobs"], args.get("claim")


class _Stream:
    """A stream of pushes, and its requests under way."""

    def __init__(self, producers: Producers, caller: Caller, context: CallContext) -> None:
        self._producers, self._caller, self._context = producers, caller, context
        self._room = asyncio.Semaphore(UNDER_WAY)
        self._writing = asyncio.Lock()
        self._answers: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        """Read requests to the end of the stream. Raises InvalidInput for bytes that are none."""
        while True:
            await self._room.acquire()
            data = await self._context.read()
            if data is grpc.aio.EOF:
                return
            answer = asyncio.create_task(self._answer(read(pb.PushRequest, data), data))
            self._answers.add(answer)
            answer.add_done_callback(self._done)

    async def answered(self) -> None:
        """Wait until all requests that were read are answered."""
        if self._answers:
            await asyncio.wait(self._answers)

    def cancel(self) -> None:
        """Withdraw requests that are not stored yet."""
        for answer in self._answers:
            answer.cancel()

    def _done(self, answer: asyncio.Task[None]) -> None:
        self._answers.discard(answer)
        self._room.release()
        if not answer.cancelled() and (error := answer.exception()) is not None:
            log.debug("a reply to a push could not be sent: %s", error)

    async def _answer(self, request: pb.PushRequest, data: bytes) -> None:
        try:
            with self._producers.guard.calls.taking():
                reply = await self._producers.reply(self._caller, request, data)
        except Exception as error:
            reply = pb.PushReply(error=_error(error))
        reply.seq = request.seq
        async with self._writing:
            await self._context.write(written(reply))


def _error(error: Exception) -> pb.Error:
    """Return the error of a reply."""
    if isinstance(error, StanchionError):
        return to_message(error, error.status if isinstance(error, Refused) else status_of(error))
    log.error("a push failed", exc_info=error)
    return to_message(StanchionError(text_of(error)), Status.INTERNAL)
