"""Reads the store for windows: one read of the heads of all queues, and one of each rank and lane that needs it.

Each read is a range of the index of claims, so it costs the same at any size of the backlog.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeVar

from stanchion.manager.window.key import COLUMNS, Key, key_of
from stanchion.manager.window.store_time import StoreTime
from stanchion.manager.window.window import Ask, Window
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Head

T = TypeVar("T")


class OffLoop(Protocol):
    """Runs a call in a thread."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class Reader:
    """Reads the store. `claimed`: returns the jobs of a queue in claims under way."""

    def __init__(self, store: Store, time: StoreTime, claimed: Callable[[str], Collection[str]]) -> None:
        self._store, self._time, self._claimed = store, time, claimed
        self.statements = 0
        """Calls of the store so far."""

    async def look(self, windows: Sequence[Window], off_loop: OffLoop) -> None:
        """Read new jobs for these windows; `off_loop` runs a call in a thread."""
        for window in windows:
            window.look(self._claimed(window.queue))
        try:
            heads, came = await off_loop(lambda: self._heads([window.queue for window in windows]))
            self._take_time(heads, came)
            asks = [(window, ask) for window in windows for ask in window.asks(heads[window.queue])]
            found = await off_loop(lambda: [self._read(window.queue, ask) for window, ask in asks]) if asks else []
        except BaseException:
            for window in windows:
                window.not_looked()
            raise
        for (window, ask), keys in zip(asks, found, strict=True):
            window.read(ask, keys)
        for window in windows:
            window.looked()

    def _take_time(self, heads: dict[str, Sequence[Head]], came: int) -> None:
        head = next((head for several in heads.values() for head in several), None)
        if head is not None:
            self._time.saw(head.run_at - head.due_in, came)

    def _heads(self, queues: Sequence[str]) -> tuple[dict[str, Sequence[Head]], int]:
        """Return the heads, and when they came by own clock."""
        self.statements += 1
        found = self._store.stats(queues, ["heads"])
        return {queue: stats.heads for queue, stats in found.items()}, self._time.own()

    def _read(self, queue: str, ask: Ask) -> list[Key]:
        self.statements += 1
        where = (
            *(Condition("queue", "=", queue), Condition("lane", "=", ask.lane), Condition("rank", "=", ask.rank)),
            Condition("run_at", "<=", ask.until),
        )
        page = self._store.select(Query("live", where, order="due", limit=ask.limit, columns=COLUMNS))
        return [key_of(*row) for row in page.rows]
