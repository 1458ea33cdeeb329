"""The engine of a manager: its parts, and the calls for the server and the leadership.

    push ──► inbox ───────────────► store ──► as running ──► sender ──► receiver
                 └─► window ──► claims ──► store ──┘                       │
    store ──► refill ──┘                                                   │
                                    store ◄── settles ◄── outcomes ◄───────┘

Everything runs in one event loop; calls of the store run in threads: one each at a time for pushes, claims, outcomes,
late outcomes and reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stanchion.manager.dispatch.calls import Calls
from stanchion.manager.dispatch.claims import Claims
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.figures import Counts, EngineStatus
from stanchion.manager.dispatch.inbox import Inbox
from stanchion.manager.dispatch.inheritance import Inheritance
from stanchion.manager.dispatch.presence import Presence
from stanchion.manager.dispatch.receivers.flight import Flights
from stanchion.manager.dispatch.receivers.peers import Peers
from stanchion.manager.dispatch.receivers.receiver import Receiver, Session, tell
from stanchion.manager.dispatch.refill import Refill
from stanchion.manager.dispatch.sender import Sender
from stanchion.manager.dispatch.settles import Settles
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.dispatch.status import Status
from stanchion.manager.dispatch.stops import Stops
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.window.reader import OffLoop, Reader
from stanchion.manager.window.store_time import StoreTime
from stanchion.manager.window.watcher import Watcher
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Lease, NewJob, Pushed
from stanchion.stores.records.outcomes import Extend, Outcome, Progress, Rollback
from stanchion.stores.wire.outcomes import Elsewhere, Refused, Reported

log = logging.getLogger("stanchion.manager")


class Engine:
    """Dispatches the jobs of its slices, and stores pushes and outcomes of any slice.

    `off_loop`: runs calls of the store in threads, six concurrently. `clock`: own clock, in seconds.
    """

    def __init__(
        self,
        store: Store,
        off_loop: OffLoop,
        *,
        delays: Delays = Delays(),  # noqa: B008 - immutable
        clock: Callable[[], float] | None = None,
        watcher: type[Watcher] = Watcher,
    ) -> None:
        clock = asyncio.get_running_loop().time if clock is None else clock
        self._delays, self._off_loop = delays, off_loop
        self._calls, self._counts = Calls(off_loop), Counts()
        self._slices, self._flights = Slices(), Flights()
        self._peers = Peers(self._flights, lambda worker: self._inheritance.of_worker(worker))
        self._settles = Settles(store, self._calls, self._counts, delays, self._peers.current)
        self._inheritance = Inheritance(store, self._calls, self._flights, self._settles, clock)
        self._sender = Sender(self._slices, self._flights, self._settles, self._counts, clock)
        time = StoreTime(clock)
        self._claims = Claims(store, self._calls, self._slices, self._peers, self._sender, time, delays.ahead)
        self._inbox = Inbox(store, self._calls, self._slices, self._peers, self._sender, time)
        reader = Reader(store, time, self._claims.claimed)
        self._refill = Refill(reader, off_loop, self._slices, delays)
        self._presence = Presence(
            self._slices, self._peers, self._flights, self._settles, self._inheritance, delays, clock
        )
        self._stops = Stops(store, self._calls, self._flights, self._peers, delays, clock)
        self._status = Status(self._slices, self._flights, self._peers, self._counts, self._calls, reader, time, clock)
        self._watcher = watcher(store, self._signed_in_thread)
        self._arriving: set[Owned] = set()
        """Slices whose running rows are being read."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._connect()

    def _connect(self) -> None:
        self._claims.read_on, self._claims.held_back = self._refill.low, lambda: self._settles.piled_up
        self._inbox.held_back, self._inbox.ready = self._claims.held_back, self._claims.rounds.kick
        self._inbox.precedence = self._claims.precedence
        self._inbox.look, self._inbox.unheard = self._refill.signed, self._watcher.unheard
        self._refill.read, self._presence.changed = self._claims.rounds.kick, self._claims.rounds.kick
        self._presence.answer = self._sender.answer
        self._settles.changed, self._stops.room_freed = self._settled, self._claims.rounds.kick

    # -- life

    async def start(self, session: Session) -> None:
        """Begin, with the session of this manager."""
        self._loop = asyncio.get_running_loop()
        self._sender.session, self._sender.stopped = session, False
        for rounds in (self._inbox.rounds, self._claims.rounds, self._settles.rounds, self._settles.late):
            rounds.start()
        self._spawn(self._refill.run())
        self._spawn(self._presence.watch())
        self._spawn(self._stops.run())

    async def drain(self, seconds: float) -> None:
        """Stop dispatching; wait up to `seconds` until pushes and outcomes are stored."""
        self._sender.stopped = True
        ends = [rounds.idle() for rounds in (self._inbox.rounds, self._claims.rounds, self._settles.rounds)]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*ends)
                await self._settles.late.idle()
        except TimeoutError:
            if len(self._inbox) or len(self._settles):
                log.warning("%d pushes and %d outcomes are not stored yet", len(self._inbox), len(self._settles))

    async def close(self) -> None:
        """End; refuse pushes that wait. Outcomes that wait are sent again by their receivers, to another manager."""
        self._sender.stopped = True
        self._inbox.close()
        self._claims.close()
        self._settles.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for rounds in (self._inbox.rounds, self._claims.rounds, self._settles.rounds, self._settles.late):
            await rounds.stop()
        await self._off_loop(self._watcher.close)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- producers

    async def push(self, jobs: Sequence[NewJob], *, repeat: bool = False) -> list[Pushed]:
        """Store jobs together with other callers'; answer then. `repeat`: an earlier try may have stored them.

        Raises StoreUnavailable immediately if too many wait. Cancelled before it has begun, it stores nothing.
        """
        return await self._inbox.push(jobs, repeat=repeat)

    def cancelled(self, ids: Sequence[str]) -> None:
        """Record that jobs were cancelled through this manager; notify their receivers immediately."""
        self._stops.cancelled(ids)

    # -- receivers

    def hello(self, receiver: Receiver, holding: Sequence[Lease], *, answer: bool) -> None:
        """Take in a receiver with a new stream, or its answer to a report; `holding`: all jobs that it has.

        The outcomes that came with it are to be given first.
        """
        if answer:
            self._presence.report(receiver, holding)
        else:
            self._presence.hello(receiver, holding)

    def outcomes(self, receiver: Receiver, outcomes: Sequence[Reported]) -> None:
        """Store a receiver's report, and confirm it then. Its room is free immediately."""
        elsewhere = []
        for one in outcomes:
            if isinstance(one, Extend | Progress):
                self._settles.add(one, receiver, first=False)
                continue
            first = self._flights.pop(one.lease) is not None or self._inheritance.pop(one.lease) is not None
            if isinstance(one, Elsewhere):
                elsewhere.append(one.lease)
                self._counts.acknowledged[one.lease.queue] += first
            elif isinstance(one, Refused):
                self._settles.add(Rollback(one.lease, 0.0, refund=True), receiver, first=first)
            else:
                self._settles.add(one, receiver, first=first)
        if elsewhere:
            tell(receiver, lambda: receiver.confirm(elsewhere, [], 0))
        self._claims.rounds.kick()

    def settled(self, outcomes: Sequence[Outcome]) -> None:
        """Record outcomes that a call has stored: they count, and the room of their jobs is free immediately."""
        ends = [one for one in outcomes if not isinstance(one, Extend | Progress)]
        for one in ends:
            if self._flights.pop(one.lease) is None:
                self._inheritance.pop(one.lease)
            self._counts.ended(one)
        if ends:
            queues = {one.lease.queue for one in ends}
            self._calls.count(queues)
            self._claims.slots_freed(queues)

    def heard(self, receiver: Receiver, stamp: int) -> None:
        """Take in the stamp of a receiver's clock, in microseconds."""
        self._presence.heard(receiver, stamp)

    def changed(self, receiver: Receiver) -> None:  # noqa: ARG002 - asked for by its stream
        """Take in that the capacity of a receiver has changed."""
        self._claims.rounds.kick()

    def gone(self, receiver: Receiver, *, goodbye: bool) -> None:
        """Take in that a stream has ended; `goodbye`: the receiver has said that it ends."""
        self._presence.gone(receiver, goodbye=goodbye)

    # -- slices

    async def take(self, owned: Sequence[Owned]) -> None:
        """Dispatch the jobs of these slices from now on, once their running rows are read."""
        arriving = list(owned)
        self._arriving.update(arriving)
        self._spawn(self._take(arriving))

    async def release(self, owned: Sequence[Owned]) -> None:
        """Stop dispatching the jobs of these slices; return once no call of the store reserves any."""
        self._arriving.difference_update(owned)
        self._slices.remove(owned)
        self._flights.drop(owned)
        self._inheritance.drop(owned)
        self._watch()
        for under_way in (self._claims.under_way, self._inbox.under_way):
            if under_way is not None and not under_way.slices.isdisjoint(owned):
                await under_way.done.wait()

    def lose(self) -> None:
        """Stop dispatching everything: the session is lost."""
        self._arriving.clear()
        self._slices.clear()
        self._flights.clear()
        self._inheritance.clear()
        self._watch()

    async def _take(self, owned: Sequence[Owned]) -> None:
        number = await self._read_running(owned, self._arriving.__contains__)
        for one in owned:
            if one in self._arriving:
                self._arriving.discard(one)
                self._slices.add(one)
        self._watch()
        self._refill.signed(None)
        self._presence.ask_all()
        await asyncio.sleep(self._delays.lease)
        self._inheritance.overdue(number)
        left = [one for one in owned if self._slices.has(one)]
        if left:
            number = await self._read_running(left, self._slices.has)
            self._presence.ask_all()
            await asyncio.sleep(self._delays.lease)
            self._inheritance.overdue(number)

    async def _read_running(self, owned: Sequence[Owned], still: Callable[[Owned], bool]) -> int:
        def own(job_id: str) -> bool:
            calls = (self._claims.under_way, self._inbox.under_way)
            return any(one is not None and job_id in one.ids for one in calls)

        while True:
            try:
                return await self._inheritance.read(owned, still, own)
            except Exception:
                log.exception("the running jobs of %d slices can't be read, next try in 1 s", len(owned))
                await asyncio.sleep(1.0)

    # -- signs

    def _watch(self) -> None:
        self._watcher.watch(self._slices.windows)

    def _signed_in_thread(self, queues: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._signed, None if queues is None else list(queues))

    def _signed(self, queues: Sequence[str] | None) -> None:
        self._refill.signed(queues)
        self._claims.signed(queues)

    def _settled(self, queues: set[str], queued: set[str]) -> None:
        if queued:
            self._refill.signed(queued)
        self._claims.slots_freed(queues)

    # -- status

    def status(self) -> EngineStatus:
        """Return the figures."""
        return self._status.figures(self._presence, len(self._inbox), len(self._settles))
