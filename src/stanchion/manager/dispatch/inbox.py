"""Jobs on their way into the store: what all producers push, in batches.

A job that is due, and whose slice is this manager's, is stored as running if a receiver has room and no earlier job is
known to wait. The store decides: it is sent only if its row was stored so.

A death after each step leaves:

    pushes wait                      nothing stored, nothing answered: the client repeats them
    stored, not answered             the client repeats them; the store knows their ids
    stored as running, not sent      running jobs that no receiver has; the next owner of the slice finds them
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from stanchion.core.ids import new_token
from stanchion.errors import StoreUnavailable
from stanchion.manager.dispatch.calls import MOST, Calls, Rounds, in_halves
from stanchion.manager.dispatch.claims import UnderWay
from stanchion.manager.dispatch.receivers.peers import Peer, Peers, Placing, free
from stanchion.manager.dispatch.receivers.precedence import Precedence
from stanchion.manager.dispatch.sender import Sender, Stored
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.window.key import key_of
from stanchion.manager.window.store_time import StoreTime
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import BY_MANAGER, Claim
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.capacity.slots import NO_SLOTS, slot_needs
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle.jobs import created

log = logging.getLogger("stanchion.manager")

JOBS_MAX = 10_000
BYTES_MAX = 16 * 1024 * 1024
"""Bounds of what waits to be stored, by the size of payloads and headers."""

OLD_SECONDS = 1.0
"""A push that has waited for so long may have been repeated through another manager already."""


class Request:
    """A waiting push. `answer`: the store's answer, or its error."""

    def __init__(self, jobs: Sequence[NewJob], repeat: bool, now: float) -> None:
        self.jobs, self.repeat, self.since = jobs, repeat, now
        self.bytes = sum(len(job.payload) + len(job.headers or "") for job in jobs)
        self.answer: asyncio.Future[list[Pushed]] = asyncio.get_running_loop().create_future()


class Starting:
    """The jobs of a batch that are to be stored as running, all of one queue, each with its slice and receiver.

    `unclear`: a call may have stored some of them without saying so.
    """

    def __init__(self, claim: Claim, places: dict[str, tuple[Owned, Peer]]) -> None:
        self.claim, self.places, self.unclear = claim, places, False


class Inbox:
    """Stores pushes.

    `ready`: called when a window has more jobs. `look`: called with queues that the windows may not know all of.
    `unheard`: makes a call of the store that gives this manager no sign of work.
    """

    def __init__(
        self, store: Store, calls: Calls, slices: Slices, peers: Peers, sender: Sender, time: StoreTime
    ) -> None:
        self._store, self._calls, self._slices, self._peers = store, calls, slices, peers
        self._sender, self._time = sender, time
        self._waiting: deque[Request] = deque()
        self._jobs = self._bytes = 0
        self.rounds = Rounds("pushes", self._round)
        self.ready: Callable[[], None] = lambda: None
        self.precedence: Callable[[int], Precedence] = lambda now: Precedence({}, lambda _: False, now)
        self.look: Callable[[Collection[str]], None] = lambda _queues: None
        self.unheard: Callable[[Callable[[], list[Pushed]]], list[Pushed]] = lambda call: call()
        self.held_back: Callable[[], bool] = lambda: False
        self.under_way: UnderWay | None = None
        self._closed = False

    def __len__(self) -> int:
        return self._jobs

    async def push(self, jobs: Sequence[NewJob], *, repeat: bool = False) -> list[Pushed]:
        """Store jobs; answer once they are stored. Raises StoreUnavailable if too many wait, and the store's errors.

        Cancelled before its batch has begun, it stores nothing.
        """
        if not jobs:
            return []
        request = Request(jobs, repeat, asyncio.get_running_loop().time())
        if self._closed or self._jobs + len(jobs) > JOBS_MAX or self._bytes + request.bytes > BYTES_MAX:
            raise StoreUnavailable(
                "the manager ends; push through another one"
                if self._closed
                else f"{self._jobs:,} jobs wait to be stored by this manager, and it takes no more now; try again later"
            )
        self._count(request, 1)
        self._waiting.append(request)
        self.rounds.kick()
        return await request.answer

    def close(self) -> None:
        """Refuse waiting and later pushes."""
        self._closed = True
        _refuse(self._waiting)
        self._waiting.clear()

    def _count(self, request: Request, sign: int) -> None:
        self._jobs += sign * len(request.jobs)
        self._bytes += sign * request.bytes

    # -- a round

    async def _round(self) -> bool:
        batch = self._taken()
        if not batch:
            return False
        starting = self._starting([job for request in batch for job in request.jobs])
        places = {} if starting is None else starting.places
        self.under_way = under_way = UnderWay({owned for owned, _ in places.values()}, places)
        try:
            _, refused = await in_halves(batch, lambda part: self._store_jobs(part, starting))
            for request, error in refused:
                if not request.answer.done():
                    request.answer.set_exception(error)
        except asyncio.CancelledError:
            _refuse(batch)
            raise
        finally:
            for request in batch:
                self._count(request, -1)
            free(peer for _, peer in places.values())
            self.under_way = None
            under_way.done.set()
        return True

    def _taken(self) -> list[Request]:
        """Return the requests of the next batch: no id twice."""
        batch: list[Request] = []
        ids: set[str] = set()
        while self._waiting:
            request = self._waiting[0]
            if request.answer.done():  # its caller has gone
                self._waiting.popleft()
                self._count(request, -1)
                continue
            full = bool(batch) and len(ids) + len(request.jobs) > MOST
            own = {job.id for job in request.jobs}
            if full or not ids.isdisjoint(own):
                break
            ids |= own
            batch.append(self._waiting.popleft())
        return batch

    # -- as running

    def _starting(self, jobs: Sequence[NewJob]) -> Starting | None:
        """Choose jobs that can start now, and receivers for them: of the queue that has most of them."""
        if not self._sender.may_fire() or self.held_back() or not any(map(self._peers.room, self._peers.connected())):
            return None
        of: dict[str, list[tuple[NewJob, Owned]]] = {}
        now, quiet = self._time.now(), dict[tuple[str, int], bool]()
        for job in jobs:
            owned = self._slices.of(job.queue, job.lane)
            if owned is not None and self._may_start(job, now, quiet):
                of.setdefault(job.queue, []).append((job, owned))
        queue = max(of, key=lambda one: len(of[one]), default=None)
        if queue is None:
            return None
        placing = Placing(self._peers, queue, self.precedence(now or 0))
        places: dict[str, tuple[Owned, Peer]] = {}
        for job, owned in sorted(of[queue], key=lambda one: -one[0].priority):
            peer = placing.choose(job.lane, job.priority)
            if peer is not None:
                places[job.id] = (owned, peer)
        if not places:
            return None
        ids = tuple((job, peer.receiver.worker) for job, (_, peer) in places.items())
        not_after = self._sender.not_after
        return Starting(Claim(queue, len(ids), new_token(), ids=ids, not_after=not_after, delivery=BY_MANAGER), places)

    def _may_start(self, job: NewJob, now: int | None, quiet: dict[tuple[str, int], bool]) -> bool:
        """Return True if a job may run before all that waits, as far as this manager knows.

        `quiet`: results known already, by queue and priority.
        """
        if slot_needs(job) != NO_SLOTS or job.waits_kind is not None or job.delay or job.on_duplicate == "replace":
            return False
        if job.run_at is not None and (now is None or job.run_at > now):
            return False
        place = (job.queue, job.priority)
        if place not in quiet:
            quiet[place] = self._slices.windows[job.queue].quiet(job.priority)
        return quiet[place]

    # -- the call

    async def _store_jobs(self, batch: Sequence[Request], starting: Starting | None) -> None:
        jobs = [job for request in batch for job in request.jobs]
        now = asyncio.get_running_loop().time()
        old = any(request.repeat or now - request.since > OLD_SECONDS for request in batch)
        claim = None if starting is None else starting.claim
        came = 0

        def push(repeat: bool) -> list[Pushed]:
            nonlocal came
            if starting is not None:
                starting.unclear |= repeat
            pushed = self.unheard(lambda: self._store.push(jobs, claim=claim, repeat=old or repeat))
            came = self._time.own()
            return pushed

        queues = {job.queue for job in jobs}
        try:
            pushed = await self._calls.answered(queues, push)
        except Exception:
            if starting is not None:
                starting.unclear = True  # a store without atomic pushes may have stored a part
            self.look(queues)
            raise
        if starting is not None:
            pushed = await self._send(jobs, pushed, starting)
        self._to_windows(jobs, pushed, came)
        place = 0
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(pushed[place : place + len(request.jobs)])
            place += len(request.jobs)

    async def _send(self, jobs: Sequence[NewJob], pushed: Sequence[Pushed], starting: Starting) -> list[Pushed]:
        """Send the jobs stored as running; return the store's answers, with the tokens that it left out."""
        claim = starting.claim
        workers = {peer.receiver.worker for _, peer in starting.places.values()}
        claims = {worker: claim._replace(worker=worker or None) for worker in workers}
        rows = {
            job.id: _row(job, one, claims[starting.places[job.id][1].receiver.worker])
            for job, one in zip(jobs, pushed, strict=True)
            if one.token == claim.token and not one.duplicate
        }
        if starting.unclear:
            claimed = await self._calls.answered(
                [claim.queue], lambda _: self._store.claim(claim._replace(repeat=True))
            )
            rows = {row.id: row for row in claimed.rows}
        own = [job.id for job in jobs if job.id in rows]
        self._sender.send(Stored(rows[job], *starting.places[job]) for job in own)
        return [one._replace(token=claim.token) if one.id in rows else one for one in pushed]

    def _to_windows(self, jobs: Sequence[NewJob], pushed: Sequence[Pushed], came: int) -> None:
        """Add jobs to the windows; `came`: when the store had answered, by own clock."""
        self._time.saw(max(one.enqueued_at for one in pushed), came)
        now = self._time.now()
        added, unknown = False, set()
        for job, one in zip(jobs, pushed, strict=True):
            window = self._slices.windows.get(job.queue)
            if window is None or one.token is not None or job.waits_kind is not None:
                continue
            if now is None or one.duplicate:
                window.drop(one.id)  # its schedule may have changed: the next poll finds it
                unknown.add(job.queue)
            else:
                added |= window.add(key_of(job.priority, one.run_at, one.id, job.lane), now)
        if unknown:
            self.look(unknown)
        if added:
            self.ready()


def _refuse(requests: Iterable[Request]) -> None:
    """Send callers to another manager; pushes of a batch under way may be stored."""
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(StoreUnavailable("the manager has ended; push through another one"))


def _row(job: NewJob, pushed: Pushed, claim: Claim) -> JobRow:
    """Return the row of a job that was stored as running by this claim."""
    row = created(job, pushed.enqueued_at)
    if row.run_at != pushed.run_at:
        row = row._replace(run_at=pushed.run_at)
    return claim_rules.claimed(row, claim, 0.0, pushed.enqueued_at)
