"""The loop that keeps a manager's session and slices.

Each iteration, every third of a lease:

1. Renew the session. Answered in time, the local deadline is nine tenths of a lease after the renewal began: before
   that, no other manager can take a slice. Refused: the session is lost, and with it all slices; a new one begins.
2. Read all slices and sessions, and delete dead sessions (`view.py`).
3. Decide (`plan.py`), then write by compare-and-set: released slices get no owner, free ones that belong here get this
   session as owner. The resulting version is in the epoch.

A write whose answer was lost needs no care: the next iteration sees what became of it. A slice that names this session
and is not in memory is taken again, under a new epoch, so that no earlier write that is still under way can count.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.errors import StoreUnavailable
from stanchion.manager.leadership.holdings import Holdings
from stanchion.manager.leadership.owner import Owned, Owner
from stanchion.manager.leadership.plan import Plan, plan_for
from stanchion.manager.leadership.rows import SLICE, SliceRow, slice_text
from stanchion.manager.leadership.session import Session
from stanchion.manager.leadership.view import Looker, View
from stanchion.manager.window.reader import OffLoop
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

log = logging.getLogger("stanchion.manager")

T = TypeVar("T")

LEASE_SECONDS = 5.0
_SURE = 0.9
"""The part of a lease after a renewal in which the session is sure to last."""
_LEAST_PAUSE = 0.02
"""Seconds between two iterations, however often others wake it."""
_AT_ONCE = 16
"""Slices written in one call of a thread."""


class Timing(NamedTuple):
    """The lease of a session, and the clock that measures it."""

    lease: float = LEASE_SECONDS
    """In seconds."""
    clock: Callable[[], float] = boot_clock


class Manager(NamedTuple):
    """A manager that is alive."""

    session: str
    address: str
    slices: tuple[Owned, ...]


def _no_signal(_addresses: Sequence[str]) -> None:
    """Signal nothing: the others notice at their next iteration."""


class Leadership:
    """A manager's session and its slices. Its methods are called in the event loop."""

    def __init__(
        self,
        store: Store,
        off_loop: OffLoop,
        owner: Owner,
        address: str,
        timing: Timing,
        *,
        queues: Callable[[], Mapping[str, int]] | None = None,
        signal: Callable[[Sequence[str]], None] = _no_signal,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """`off_loop` runs calls of the store in threads. `timing`: the same lease for all managers.

        `queues` returns the number of lanes of each queue, in a thread; by default of all in the store. `signal` asks
        managers at these addresses to call `wake`, soon and without an answer; others notice by
        themselves after a third of a lease. `renewed` is called after each renewal of the session.
        """
        self._store, self._off_loop, self._address = store, off_loop, address
        self._lease, self._clock = timing
        self._signal, self._renewed = signal, renewed
        self._looker = Looker(store, queues or self._all_queues, *timing)
        self._holdings = Holdings(owner, self.wake)
        self._woken, self._stepping, self._left = asyncio.Event(), asyncio.Lock(), False
        self._managers: tuple[Manager, ...] = ()
        self.version = 0
        """Counts the changes of `managers()`."""
        self.until = 0
        """The store's time, in microseconds, until which the session is good."""
        self._renewed_at = -math.inf
        self._begin()

    def _begin(self) -> None:
        self._session = Session(self._store, self._address, int(self._lease * SECOND), self._clock)
        self._joined, self._deadline, self.until = False, -math.inf, 0

    def _all_queues(self) -> dict[str, int]:
        return {one.name: one.lanes for one in self._store.queues()}

    @property
    def session(self) -> str:
        """The id of the session; a new one after each loss."""
        return self._session.id

    def seconds_left(self) -> float:
        """Return the seconds in which no other manager can own this one's slices; 0 or less: send nothing."""
        return self._deadline - self._clock()

    @property
    def owned(self) -> Sequence[Owned]:
        """The slices that this manager owns, if there are seconds left."""
        return list(self._holdings.mine.values())

    def managers(self) -> Sequence[Manager]:
        """Return the managers alive, with their slices, as the last iteration has found them."""
        return self._managers

    def wake(self) -> None:
        """Iterate immediately: another manager has joined, left, or released slices."""
        self._woken.set()

    async def run(self) -> None:
        """Hold the session and slices until `leave`, or cancelled."""
        interval = self._lease / 3
        backoff = Backoff(interval / 16, interval)
        while not self._left:
            try:
                await self.step()
                pause = interval * random.uniform(0.9, 1.1)  # noqa: S311 - spreading load
                backoff.succeeded()
            except Exception as error:
                pause = backoff.failed()
                log.warning("no renewal, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
            await self._watching(self._pause(pause))

    async def _pause(self, seconds: float) -> None:
        """Pause until woken."""
        await asyncio.sleep(_LEAST_PAUSE)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def leave(self) -> None:
        """Release all slices, and delete the session, so that others take them immediately. `run` ends."""
        self._left = True
        self.wake()
        async with self._stepping:
            await self._holdings.let_all_go()
            self._deadline = -math.inf
            try:
                await self._off_loop(self._session.end)
            except Exception as error:
                log.warning("the session ends by itself in %.0f s: %s", self._lease, error)
            self._tell_others()

    async def step(self) -> None:
        """Make one iteration; `run` makes one after another."""
        async with self._stepping:
            if self._left:
                return
            self._woken.clear()
            self._lose_if_late()
            await self._renew()
            view = await self._call(partial(self._looker.look, self.session))
            if self.session not in view.sessions:
                self._lose("others have deleted its session")
                self.wake()
                return
            await self._carry_out(plan_for(self.session, self._holdings.mine, self._holdings.busy, view), view)

    # -- the session

    async def _renew(self) -> None:
        renewal = await self._watching(self._off_loop(self._session.renew))
        if renewal is None:
            self._lose("others have deleted its session")
            renewal = await self._watching(self._off_loop(self._session.renew))
        if renewal is None:
            raise StoreUnavailable("others have deleted the new session of this manager immediately")
        self._renewed()
        self.until = renewal.until
        self._renewed_at = renewal.at
        if self._clock() < renewal.at + _SURE * self._lease:
            self._deadline = renewal.at + _SURE * self._lease
        self._check_in_time()

    def _lose(self, why: str) -> None:
        """Forget everything, and begin a new session."""
        log.warning("this manager has lost its slices: %s", why)
        self._begin()
        self._holdings.lose()

    def _lose_if_late(self) -> None:
        """Forget the slices if the deadline has passed. The session may be alive still, and they are taken again."""
        if self._holdings.mine and self.seconds_left() <= 0:
            log.warning("this manager has lost its slices: its session was not renewed in time")
            self._holdings.lose()

    async def _watching(self, work: Awaitable[T]) -> T:
        """Wait for work, and lose the slices if the deadline passes meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                timeout = max(self.seconds_left(), 0.0) if self._holdings.mine else None
                await asyncio.wait([task], timeout=timeout)
                self._lose_if_late()
            return task.result()
        finally:
            task.cancel()

    async def _call(self, work: Callable[[], T]) -> T:
        """Call the store; raise StoreUnavailable if the deadline has passed meanwhile."""
        found = await self._watching(self._off_loop(work))
        self._check_in_time()
        return found

    def _check_in_time(self) -> None:
        if self.seconds_left() <= 0:
            self._lose_if_late()
            raise StoreUnavailable(f"the store took longer than {_SURE * self._lease:.1f} s to answer")

    # -- the slices

    async def _carry_out(self, plan: Plan, view: View) -> None:
        if plan.stop:
            self._holdings.let_go(plan.stop)
        rows = {name: row for name, row in view.rows.items() if row.owner in view.sessions}
        self._see(view, rows)
        given = [row async for written in self._write(plan.give) for row in written]
        if given or view.burned or not self._joined:
            self._tell_others()
        self._joined = True
        async for taken in self._write(plan.take):
            rows.update((row.name, row) for row in taken)
            self._holdings.take({row.name: _owned(row, view) for row in taken})
        self._see(view, rows)
        await self._forget(plan.forget)

    async def _write(self, rows: Sequence[SliceRow]) -> AsyncIterator[list[SliceRow]]:
        """Write rows by compare-and-set; yield some at a time, in their new state, without refused ones.

        Writes that don't fit into the time until the next renewal are left to the next iteration.
        """

        def write(some: Sequence[SliceRow]) -> list[SliceRow]:
            set_ = self._store.compare_and_set
            return [
                row._replace(version=row.version + 1)
                for row in some
                if set_(SLICE, row.name, slice_text(row), row.version)
            ]

        for some in self._portions(rows):
            written = await self._call(partial(write, some))
            if written:
                yield written

    async def _forget(self, rows: Sequence[SliceRow]) -> None:
        for some in self._portions(rows):
            await self._call(
                lambda: [self._store.compare_and_set(SLICE, row.name, None, row.version) for row in some]  # noqa: B023
            )

    def _portions(self, rows: Sequence[SliceRow]) -> Iterator[Sequence[SliceRow]]:
        for first in range(0, len(rows), _AT_ONCE):
            if self._clock() - self._renewed_at > self._lease / 3:
                self.wake()
                return
            yield rows[first : first + _AT_ONCE]

    # -- the others

    def _see(self, view: View, rows: Mapping[str, SliceRow]) -> None:
        """Remember who is alive, and who owns what."""
        slices: defaultdict[str, list[Owned]] = defaultdict(list)
        for row in rows.values():
            if row.owner is not None and row.name in view.slices:
                slices[row.owner].append(_owned(row, view))
        managers = tuple(
            Manager(one.id, one.address, tuple(sorted(slices[one.id])))
            for one in sorted(view.sessions.values(), key=lambda one: one.id)
        )
        if managers != self._managers:
            self._managers = managers
            self.version += 1

    def _tell_others(self) -> None:
        addresses = [one.address for one in self._managers if one.session != self.session]
        try:
            if addresses:
                self._signal(addresses)
        except Exception:
            log.exception("the other managers could not be notified, and notice by themselves")


def _owned(row: SliceRow, view: View) -> Owned:
    return Owned(row.queue, view.slices[row.name].number, row.epoch, row.lanes)
