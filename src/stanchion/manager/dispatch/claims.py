"""Delivers the jobs of the windows: reserves them by id, each for a receiver, and sends the reserved ones.

A death after each step leaves:

    the jobs are taken from the window       nothing: they are queued
    the store has them as running            running jobs that no receiver has; the next owner of the slice finds them
    they are in the table and sent           jobs in flight
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from time import sleep
from typing import NamedTuple

from stanchion.core.ids import new_token
from stanchion.manager.dispatch.calls import MOST, Calls, Rounds, in_halves
from stanchion.manager.dispatch.receivers.peers import Peer, Peers, Placing, free
from stanchion.manager.dispatch.receivers.precedence import Precedence
from stanchion.manager.dispatch.sender import Sender, Stored
from stanchion.manager.dispatch.slices import Slices
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.window.key import COLUMNS, Key, key_of
from stanchion.manager.window.store_time import StoreTime
from stanchion.manager.window.window import Window
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import BY_MANAGER, Claim, Claimed
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query

log = logging.getLogger("stanchion.manager")

ASIDE, ASIDE_SECONDS = 1000, 60.0
"""How many jobs that the store refuses to reserve are left out at most, and for how long."""

BYTES, BYTES_EACH = 16 * 2**20, 2**16
"""Approximate payload bytes of one claim; and assumed job size for a queue that has delivered none yet."""


class Taken(NamedTuple):
    """A job from a window, its slice, and the receiver that is to get it."""

    key: Key
    owned: Owned
    peer: Peer


class Rest(NamedTuple):
    """A queue is not asked from `since` to `until`, by the clock of the event loop."""

    since: float
    until: float
    timed: bool
    """It ends at its time, whatever other jobs do."""


class UnderWay:
    """A store call that reserves jobs: its slices and jobs; `done` once all its jobs are sent or freed."""

    def __init__(self, slices: Collection[Owned], ids: Collection[str]) -> None:
        self.slices, self.ids, self.done = frozenset(slices), frozenset(ids), asyncio.Event()


class Claims:
    """Reserves and sends. `read_on` is called when a window runs low.

    `ahead`: seconds that a call waits in its thread until its jobs are due: more exactly than an event loop.
    """

    def __init__(
        self, store: Store, calls: Calls, slices: Slices, peers: Peers, sender: Sender, time: StoreTime, ahead: float
    ) -> None:
        self._store, self._calls, self._slices, self._peers = store, calls, slices, peers
        self._sender, self._time, self._ahead = sender, time, ahead
        self.rounds = Rounds("claims", self._round)
        self.read_on: Callable[[], None] = lambda: None
        self.held_back: Callable[[], bool] = lambda: False
        self.under_way: UnderWay | None = None
        self._rests: dict[str, Rest] = {}
        """Queues at a limit."""
        self._aside: OrderedDict[str, float] = OrderedDict()
        """Jobs that the store refuses to reserve, and until when they are left out."""
        self._bytes: dict[str, float] = {}
        """The mean size of the jobs of a queue that came last."""
        self._last = ""
        """The queue served last."""
        self._timer: asyncio.TimerHandle | None = None

    def slots_freed(self, queues: Collection[str]) -> None:
        """Take in that jobs of these queues have ended, so that others may begin."""
        for queue in queues:
            if (rest := self._rests.get(queue)) is not None and not rest.timed:
                del self._rests[queue]
        self.rounds.kick()

    def signed(self, queues: Collection[str] | None) -> None:
        """Take in that something has changed in these queues (None: all); a pause may be over."""
        for queue, rest in self._rests.items():
            if queues is None or queue in queues:
                self._rests[queue] = rest._replace(until=min(rest.until, rest.since + SIGNED))
        self.rounds.kick()

    def claimed(self, _queue: str) -> Collection[str]:
        """Return the jobs of the call under way."""
        return () if self.under_way is None else self.under_way.ids

    def close(self) -> None:
        """Set no more timer."""
        if self._timer is not None:
            self._timer.cancel()

    # -- a round

    async def _round(self) -> bool:
        if not self._sender.may_fire() or self.held_back():
            return False
        now = self._time.now()
        if now is None:
            return False
        loop_time = asyncio.get_running_loop().time()
        precedence, kept = self.precedence(now), True
        for queue in self._in_order():
            window = self._slices.windows[queue]
            window.due(now)
            if window.best() is None:
                window.due(now + int(self._ahead * SECOND))
            if window.best() is None or self._rests_at(queue, loop_time):
                continue
            before = len(window)
            taken = self._take(window, precedence)
            if window.runs_low:
                self.read_on()
            if taken:
                self._last = queue
                await self._reserve(window, taken)
                return True
            kept &= len(window) == before
        self._set_timer()
        return not kept  # jobs that were set aside may have held back other queues

    def precedence(self, now: int) -> Precedence:
        """Return which queues come first for receivers, by the store's time."""
        loop_time = asyncio.get_running_loop().time()
        return Precedence(self._slices.windows, lambda queue: self._rests_at(queue, loop_time), now)

    def _in_order(self) -> list[str]:
        """Return the queues, from the one after the queue served last."""
        return sorted(self._slices.windows, key=lambda queue: (queue <= self._last, queue))

    def _take(self, window: Window, precedence: Precedence) -> list[Taken]:
        placing = Placing(self._peers, window.queue, precedence)
        if not placing.room:
            return []
        taken = []
        now = asyncio.get_running_loop().time()
        most = max(1, min(MOST, placing.room, int(BYTES / self._bytes.get(window.queue, BYTES_EACH))))
        for key, peer in window.take(most, placing.choose):
            owned = self._slices.of(window.queue, key.lane)
            if owned is None or self._aside.get(key.id, 0.0) > now:
                free([peer])
            else:
                taken.append(Taken(key, owned, peer))
        return taken

    def _set_timer(self) -> None:
        """Begin a round when the next job is due, or a queue has rested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        waits = [max(_SHORTEST, rest.until - loop.time()) for rest in self._rests.values()]
        due = (window.next_at() for window in self._slices.windows.values())
        waits += [max(_SHORTEST, self._time.seconds_until(at) - self._ahead) for at in due if at is not None]
        if waits:
            self._timer = loop.call_later(min(waits), self.rounds.kick)

    # -- the call

    async def _reserve(self, window: Window, taken: Sequence[Taken]) -> None:
        self.under_way = under_way = UnderWay({one.owned for one in taken}, {one.key.id for one in taken})
        try:
            _, refused = await in_halves(taken, lambda part: self._claim(window, part))
            for one, error in refused:
                free([one.peer])
                self._set_aside(window.queue, one.key.id, error)
        finally:
            self.under_way = None
            under_way.done.set()

    async def _claim(self, window: Window, taken: Sequence[Taken]) -> None:
        queue = window.queue
        ids = tuple((one.key.id, one.peer.receiver.worker) for one in taken)
        claim = Claim(queue, len(ids), new_token(), ids=ids, not_after=self._sender.not_after, delivery=BY_MANAGER)
        due = max(one.key.run_at for one in taken)

        def reserve(repeat: bool) -> Claimed:
            if (seconds := self._time.seconds_until(due)) > 0:
                sleep(min(seconds, self._ahead))
            return self._store.claim(claim._replace(repeat=repeat))

        claimed = await self._calls.answered([queue], reserve)
        came = {row.id: row for row in claimed.rows}
        if came:
            self._bytes[queue] = max(1.0, sum(len(row.payload) for row in came.values()) / len(came))
        self._sender.send(Stored(came[one.key.id], one.owned, one.peer) for one in taken if one.key.id in came)
        free(one.peer for one in taken)
        if len(came) < len(taken):
            await self._explain(window, taken, came, claimed)

    async def _explain(self, window: Window, taken: Sequence[Taken], came: Collection[str], claimed: Claimed) -> None:
        """Drop from the window what can't be claimed; keep what only a limit of the queue, or a lock, holds back."""
        missing = [one.key for one in taken if one.key.id not in came]
        places = {one.key.id: place for place, one in enumerate(taken)}
        last = max((places[job] for job in came), default=-1)
        if claimed.retry_in is not None:
            kept = {key for key in missing if places[key.id] > last}
            self._rest(window.queue, claimed.retry_in, timed=True)
        else:
            kept = await self._queued(window.queue, missing)
            if kept and not came:  # jobs that have to wait for a slot leave the window, so that others may start
                self._rest(window.queue, REST, timed=False)
        window.put_back(key for key in missing if key in kept)
        for key in missing:
            if key not in kept:
                window.missing(key)

    async def _queued(self, queue: str, missing: Sequence[Key]) -> set[Key]:
        """Return the jobs that are queued as before."""
        where = (Condition("queue", "=", queue), Condition("id", "in", tuple(key.id for key in missing)))
        query = Query("live", (*where, Condition("state", "=", "ready")), limit=len(missing), columns=COLUMNS)
        page = await self._calls.answered([queue], lambda _: self._store.select(query))
        return {key_of(*row) for row in page.rows}.intersection(missing)

    def _rest(self, queue: str, seconds: float, *, timed: bool) -> None:
        now = asyncio.get_running_loop().time()
        if seconds > 0:
            self._rests[queue] = Rest(now, now + seconds, timed)

    def _rests_at(self, queue: str, now: float) -> bool:
        rest = self._rests.get(queue)
        if rest is not None and rest.until <= now:
            del self._rests[queue]
        return rest is not None and rest.until > now

    def _set_aside(self, queue: str, job_id: str, error: Exception) -> None:
        log.error("the store refuses to reserve job %s of queue %s: %s: %s", job_id, queue, type(error).__name__, error)
        self._aside[job_id] = asyncio.get_running_loop().time() + ASIDE_SECONDS
        if len(self._aside) > ASIDE:
            self._aside.popitem(last=False)


REST = 1.0
"""Seconds after which a queue is asked again that returned none of the jobs asked for, without a signal."""

SIGNED = 0.1
"""Minimum seconds that it rests, whatever signals arrive: a paused queue's signals are about its new jobs."""

_SHORTEST = 0.0005
"""Seconds, so that a timer that is early does not spin."""
