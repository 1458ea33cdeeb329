"""The methods of `stanchion.v1`, as calls of a store.

    metadata ──► guard ──► request received ──► read, checked, carried out, answered in a thread ──► reply

An unknown caller is refused before its request is received, so that it can't fill the memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import grpc

from stanchion.errors import InvalidInput, StanchionError
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.server import access, value_checks
from stanchion.manager.server.guard import STOPPING, CallContext, Guard, Refused
from stanchion.manager.server.hub import Hub
from stanchion.manager.server.known import Known
from stanchion.manager.server.own_workers import OwnWorkers
from stanchion.manager.server.pool import StoreCalls
from stanchion.manager.server.settings import Limits
from stanchion.manager.server.shared import check_flows, with_own_write
from stanchion.manager.server.streams.producers import Producers
from stanchion.manager.server.streams.receivers import Receivers
from stanchion.manager.server.streams.topology import Topology
from stanchion.manager.server.tokens import Caller
from stanchion.manager.server.verbs import SERVED, Served, Settled, carry_out, too_large
from stanchion.stores.protocol import Store
from stanchion.stores.records.managers import ManagerStatus
from stanchion.stores.wakeup.signs import ANY, Signs
from stanchion.stores.wire.messages import METHODS, SERVICES, pb, read, written
from stanchion.stores.wire.statuses import Status, status_of, text_of, to_metadata
from stanchion.stores.wire.store import STATUS, wake
from stanchion.stores.wire.transport import REPLY_BYTES

log = logging.getLogger("stanchion.manager")

__all__ = ["SERVICES", "Services"]

T = TypeVar("T")


class Services(grpc.GenericRpcHandler):
    """Answers calls by their paths."""

    def __init__(
        self, store: Store, calls: StoreCalls, guard: Guard, hub: Hub, engine: Engine, limits: Limits, lease: float
    ) -> None:
        self._store, self._calls, self._guard, self._hub, self._engine = store, calls, guard, hub, engine
        self._reads, self._read_seconds = asyncio.Semaphore(limits.reads), limits.read_seconds
        self._known, self._workers = known, workers = Known(store), OwnWorkers(store)
        self.producers = Producers(store, calls, guard, engine, known)
        self.receivers = Receivers(store, calls, guard, engine, known, workers, lease, limits.read_seconds)
        self.topology = Topology()
        # A request is read as a stream of one: only then the caller is looked at before it is received.
        self._handlers: dict[str, object] = {
            METHODS[name].path: grpc.stream_unary_rpc_method_handler(partial(self._unary, served))
            for name, served in SERVED.items()
        }
        self._handlers[METHODS["Queues.Status"].path] = grpc.stream_unary_rpc_method_handler(self._status)
        streams: dict[str, Callable[[CallContext], Awaitable[None]]] = {
            "Queues.Listen": self._listened,
            "Queues.Topology": self._told,
            "Queues.PushStream": self.producers.stream,
            "Queues.Receive": self.receivers.stream,
        }
        for name, work in streams.items():
            self._handlers[METHODS[name].path] = grpc.stream_stream_rpc_method_handler(partial(self._stream, work))

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(details.method)

    def end_streams(self) -> None:
        """End what would never end by itself."""
        self._hub.end()
        self.producers.end_streams()
        self.receivers.end_streams()
        self.topology.end()

    async def idle(self) -> None:
        """Wait until no call is under way."""
        while self._guard.calls.taken or self._guard.streams.taken:
            await asyncio.sleep(_IDLE_TICK)

    # -- unary methods

    async def _unary(self, served: Served, _requests: object, context: CallContext) -> bytes:
        return await self._guarded(context, partial(self._answered, served, context))

    async def _answered(self, served: Served, context: CallContext) -> bytes:
        caller = self._guard.caller_of(context)
        with self._guard.calls.taking():
            data = await self._received(context)
            if served.verb == "push":
                return await self.producers.push(caller, data)
            # At its client's deadline this is cancelled. A call that still waits for a thread is then not made.
            reply, found = await self._calls.run(partial(self._carried_out, served, caller, data))
            if served.verb == "cancel":
                self._engine.cancelled(list(read(pb.CancelRequest, data).ids))
            elif isinstance(found, Settled):
                self._engine.settled(found.newly)
            return reply

    def _carried_out(self, served: Served, caller: Caller, data: bytes) -> tuple[bytes, object]:
        """Carry a request out; return the reply, and the result. In a thread, as a large one takes long to read."""
        args = served.arguments(read(served.method.request, data))
        if b"\0" in data:
            value_checks.check_texts(args)
        value_checks.check(served.verb, args)
        access.check(self._store, caller, served.verb, args)
        check_flows(self._store, caller, served.verb, args)
        self._known.check(served.verb, args)
        self._workers.check(caller, served.verb, args)
        stored = carry_out(self._store, served.verb, with_own_write(caller, served.verb, args))
        found = access.answer(caller, served.verb, args, stored)
        reply = written(served.reply(found))
        if len(reply) > REPLY_BYTES:
            raise too_large(len(reply))
        return reply, found

    async def _status(self, _requests: object, context: CallContext) -> bytes:
        return await self._guarded(context, partial(self._told_status, context))

    async def _told_status(self, context: CallContext) -> bytes:
        caller = self._guard.caller_of(context)
        with self._guard.calls.taking():
            request = read(pb.StatusRequest, await self._received(context))
            engine = self._engine.status()
        wanted = request.queues or [one.queue for one in engine.queues]
        shown = [one for one in engine.queues if caller.reaches(one.queue) and one.queue in wanted]
        status = ManagerStatus(
            **self.topology.own(),
            store_answers=engine.store_answers,
            statements=engine.statements,
            pushes=engine.pushes,
            outcomes=engine.outcomes,
            queues=tuple(shown),
            receivers=engine.receivers if caller.queues is None else (),
        )
        return written(STATUS.to_message(status))

    async def _received(self, context: CallContext) -> bytes:
        """Return the only request of a call."""
        async with self._reads:
            try:
                async with asyncio.timeout(self._read_seconds):
                    data = await context.read()
            except TimeoutError:
                raise Refused(
                    Status.DEADLINE_EXCEEDED, f"the request did not arrive within {self._read_seconds:g} s"
                ) from None
        if data is grpc.aio.EOF:
            raise InvalidInput("the call has no request; send one message")
        return bytes(data)

    async def _guarded(self, context: CallContext, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work of a call; end the call with the status of an error."""
        try:
            return await work()
        except StanchionError as error:
            status = error.status if isinstance(error, Refused) else status_of(error)
            beside = error.beside if isinstance(error, Refused) else ()
            code, message, metadata = CODES[status], text_of(error), (*to_metadata(error, status), *beside)
        except Exception as error:
            log.exception("a call of %s failed", getattr(context, "method", "?"))
            code, message, metadata = CODES[status_of(error)], text_of(error), ()
        await context.abort(code, message, metadata)
        raise AssertionError("abort raises")

    # -- streams

    async def _stream(
        self, work: Callable[[CallContext], Awaitable[None]], _requests: object, context: CallContext
    ) -> None:
        await self._guarded(context, partial(work, context))

    async def _listened(self, context: CallContext) -> None:
        caller = self._guard.caller_of(context)
        with self._guard.streams.taking():
            request = read(pb.ListenRequest, await self._received(context))
            queues, finished = list(request.queues), list(request.finished.names)
            access.check(self._store, caller, "listen", {"queues": queues, "finished": finished})
            subscriber = await self._hub.subscribe(queues, finished)
            try:
                signs: Signs | None = ANY  # a new stream counts as a sign for all
                while signs is not None:
                    await context.write(written(wake(signs, connected=self._hub.connected)))
                    signs = await subscriber.next()
                raise Refused(Status.UNAVAILABLE, STOPPING)
            finally:
                self._hub.unsubscribe(subscriber)

    async def _told(self, context: CallContext) -> None:
        caller = self._guard.caller_of(context)
        with self._guard.streams.taking():
            request = read(pb.TopologyRequest, await self._received(context))
            queues, version = list(request.queues), 0
            while (now := await self.topology.after(version)) is not None:
                version = now
                await context.write(written(self.topology.reply(caller, queues)))
            raise Refused(Status.UNAVAILABLE, STOPPING)


_IDLE_TICK = 0.02


CODES = {code.value[0]: code for code in grpc.StatusCode}
