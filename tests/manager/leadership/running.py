"""Managers that run their loops in one event loop, over a store of any kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from stanchion.manager.leadership.leadership import Leadership, Timing
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.leadership.signals import Signals
from stanchion.manager.server.pool import StoreCalls
from stanchion.stores.protocol import Store
from tests.manager.leadership.model import Engine

T = TypeVar("T")

SECONDS = 120.0
"""Until what must come is overdue."""


class Running:
    """A manager. `hang`: calls of its store wait while it is set. `signals`: None: by the store; False: none."""

    def __init__(
        self, store: Store, lease: float, name: str, others: dict[str, Running], *, signals: bool | None
    ) -> None:
        self.engine, self.others = Engine(), others
        self._calls = StoreCalls(4)
        self.hang = asyncio.Event()
        self.go_on = asyncio.Event()
        self.signals = Signals(store, self._off_loop, lambda: self.leadership.wake())
        signal = self._signal if signals else self.signals.send if signals is None else (lambda _addresses: None)
        self.leadership = Leadership(store, self._off_loop, self.engine, name, timing=Timing(lease), signal=signal)
        if signals is None:
            self.signals.start()
        self.task = asyncio.create_task(self.leadership.run())

    async def _off_loop(self, call: Callable[[], T]) -> T:
        if self.hang.is_set():
            await self.go_on.wait()
        return await self._calls.run(call)

    def _signal(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            if address in self.others:
                self.others[address].leadership.wake()

    @property
    def served(self) -> set[Owned]:
        return self.engine.serving if self.leadership.seconds_left() > 0 else set()

    async def end(self) -> None:
        """Die."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.signals.close()
        self._calls.close()


class Group(dict[str, Running]):
    """The managers that run, by name."""

    def __init__(self, store: Store, lease: float, *, signals: bool | None = True) -> None:
        self._store, self._lease, self._signals = store, lease, signals

    def start(self, name: str) -> Running:
        self[name] = Running(self._store, self._lease, name, self, signals=self._signals)
        return self[name]

    def shares(self) -> list[int]:
        """Return how many slices each serves; they are not served twice."""
        served = [one.served for one in self.values()]
        assert len({(owned.queue, owned.slice) for one in served for owned in one}) == sum(map(len, served))
        return sorted(map(len, served))


@asynccontextmanager
async def group(store: Store, lease: float, *, signals: bool | None = True) -> AsyncIterator[Group]:
    managers = Group(store, lease, signals=signals)
    try:
        yield managers
    finally:
        for one in managers.values():
            await one.end()


async def comes(true: Callable[[], bool]) -> None:
    """Wait for what must come."""
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.005)
