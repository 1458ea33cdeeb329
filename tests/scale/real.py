"""The leadership of the product over a memory store, in simulated time, as the simulation has it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import pytest
from benchmarks.scale.costs import Costs
from benchmarks.scale.values import Written

from stanchion.manager.leadership.leadership import Leadership, Timing
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.stores.memory.jobs import FrozenClock
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import VersionedValue

T = TypeVar("T")


class Jumping(selectors.SelectSelector):
    """Lets time pass in place of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.at += timeout or 0.0
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps from one timer to the next."""

    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.at


class Engine:
    """Takes and lets go slices, in the time that the simulation gives it."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs

    async def take(self, _owned: Sequence[Owned]) -> None:
        await asyncio.sleep(self._costs.take_wait)

    async def release(self, _owned: Sequence[Owned]) -> None:
        await asyncio.sleep(self._costs.durable_wait)

    def lose(self) -> None:
        raise AssertionError("nothing is lost here")


class Process:
    """A manager: it counts its calls, which take the time that the simulation gives them."""

    def __init__(self, group: Group) -> None:
        self._group, self._costs = group, group.costs
        self._calls = self._rows = 0
        store: Any = self
        self.leadership = Leadership(
            store,
            self._off_loop,
            Engine(group.costs),
            str(len(group.processes)),
            timing=Timing(group.costs.lease, group.loop.time),
            queues=self._queues,
            signal=group.signal,
        )
        self.task = group.loop.create_task(self.leadership.run(), name=str(len(group.processes)))

    async def _off_loop(self, call: Callable[[], T]) -> T:
        self._calls = self._rows = 0
        self._group.tick()
        found = call()
        await asyncio.sleep(self._calls * self._costs.call_wait + self._rows * self._costs.row_wait)
        return found

    def _queues(self) -> Mapping[str, int]:
        self._calls += 1
        self._rows += len(self._group.queues)
        self._group.reads += 1
        return self._group.queues

    def now(self) -> int:
        self._calls += 1
        self._group.reads += 1
        return self._group.store.now()

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]:
        found = list(self._group.store.values(kind, names))
        self._calls += 1
        self._rows += len(found) if kind == SLICE else 0
        self._group.reads += 1
        return found

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        self._calls += 1
        self._group.writes += 1
        done = self._group.store.compare_and_set(kind, name, text, version)
        if done:
            self._group.note(kind, name, text, version)
        return done


class Group:
    """Managers over one store, with the session ids and the pauses of the simulation."""

    def __init__(self, queues: Mapping[str, int], costs: Costs, seed: int, patch: pytest.MonkeyPatch) -> None:
        """Each manager draws from random numbers of its own, so that it matters not who of two comes first."""
        self._randoms = [Random(f"{seed} {number}") for number in range(10)]
        self.queues, self.costs = queues, costs
        self.loop = SimulatedLoop()
        self._clock = FrozenClock()
        self.store = MemoryStore(self._clock)
        self.processes: list[Process] = []
        self.reads = self.writes = 0
        self.written: list[Written] = []
        patch.setattr("stanchion.manager.leadership.session.uuid4", self._session)
        patch.setattr("stanchion.manager.leadership.leadership.random.uniform", self._uniform)

    def _session(self) -> UUID:
        return UUID(int=self._randoms[len(self.processes)].getrandbits(128))

    def _uniform(self, low: float, high: float) -> float:
        task = asyncio.current_task()
        assert task is not None
        return self._randoms[int(task.get_name())].uniform(low, high)

    def tick(self) -> None:
        self._clock.at = round(self.loop.time() * SECOND)

    def note(self, kind: str, name: str, text: str | None, version: int) -> None:
        """Remember a write, but for renewals."""
        at = self.loop.time()
        if kind == SLICE:
            owner = slice_row(VersionedValue(name, text, version + 1)).owner if text else None
            self.written.append(Written(at, "slice", name, owner))
        elif version == 0 or text is None:
            self.written.append(Written(at, "session", name, name if text else None))

    def signal(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            self.loop.call_later(self.costs.signal_wait, self.processes[int(address)].leadership.wake)

    def start(self) -> None:
        self.processes.append(Process(self))

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def leave(self, number: int) -> None:
        self.loop.create_task(self.processes[number].leadership.leave())

    def kill(self, number: int) -> None:
        self.processes[number].task.cancel()

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
