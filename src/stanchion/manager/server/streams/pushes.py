"""Group commit of pushes: what waits, of all callers, goes to the store in one call.

A push that comes while a call is under way waits for the next one. So a push alone is stored at once, and under load
the groups grow by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from stanchion.errors import StoreUnavailable
from stanchion.manager.server.pool import StoreCalls
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob, Pushed

MOST_JOBS: Final = 500
"""Jobs of one call."""


class Pushes(Protocol):
    """Stores pushes in groups, in the event loop."""

    async def push(self, jobs: Sequence[NewJob], *, repeat: bool = False) -> list[Pushed]:
        """Store the jobs of one push, up to MOST_JOBS, in order; raise the error of this one alone.

        `repeat`: an earlier try may have stored them. Cancelled before its call has begun, it is not stored.
        """


class _Push(NamedTuple):
    jobs: Sequence[NewJob]
    repeat: bool
    stored: asyncio.Future[list[Pushed]]


class GroupedPushes:
    """Stores pushes with one call of the store at a time."""

    def __init__(self, store: Store, calls: StoreCalls) -> None:
        self._store, self._calls = store, calls
        self._waiting: deque[_Push] = deque()
        self._storing: asyncio.Task[None] | None = None

    async def push(self, jobs: Sequence[NewJob], *, repeat: bool = False) -> list[Pushed]:
        """See Pushes."""
        one = _Push(jobs, repeat, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all())
        return await one.stored

    async def _store_all(self) -> None:
        group: list[_Push] = []
        try:
            while group := self._taken():
                given = [(one.jobs, one.repeat) for one in group]
                for one, result in zip(group, await self._calls.run(partial(_stored, self._store, given)), strict=True):
                    if one.stored.done():  # its caller has gone
                        continue
                    if isinstance(result, Exception):
                        one.stored.set_exception(result)
                    else:
                        one.stored.set_result(result)
        finally:
            self._storing = None
            for one in (*group, *self._waiting):  # the manager ends
                one.stored.cancel()

    def _taken(self) -> list[_Push]:
        """Take the next group. A push of a job that is in it already waits for the next one."""
        group: list[_Push] = []
        ids: set[str] = set()
        while self._waiting:
            one = self._waiting[0]
            own = {job.id for job in one.jobs}
            if not one.stored.done():
                if group and (len(ids) + len(own) > MOST_JOBS or not ids.isdisjoint(own)):
                    break
                group.append(one)
                ids |= own
            self._waiting.popleft()
        return group


def _stored(store: Store, pushes: Sequence[tuple[Sequence[NewJob], bool]]) -> list[list[Pushed] | Exception]:
    """Store pushes by one call; if one of them can't be stored, halve the group until that one is alone."""
    try:
        repeat = any(repeated for _, repeated in pushes)
        found = store.push([job for jobs, _ in pushes for job in jobs], repeat=repeat)
    except StoreUnavailable as error:
        return [error] * len(pushes)
    except Exception as error:
        if len(pushes) == 1:
            return [error]
        half = len(pushes) // 2
        again = [(jobs, True) for jobs, _ in pushes]  # a store without transactions may have stored some of them
        return _stored(store, again[:half]) + _stored(store, again[half:])
    results: list[list[Pushed] | Exception] = []
    first = 0
    for jobs, _ in pushes:
        results.append(found[first : first + len(jobs)])
        first += len(jobs)
    return results
