"""Managers over one store in simulated time, one of which fails at a chosen call of the store.

Each manager has an event loop that runs only while its step does. One that is stopped at a call stays there while the
others go on.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

from stanchion.errors import StoreUnavailable
from stanchion.manager.leadership.leadership import Leadership, Timing
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.leadership.plan import assigned_in
from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.manager.leadership.slices import slices_of
from stanchion.manager.leadership.view import View
from stanchion.stores.memory.jobs import FrozenClock
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.sessions import SESSION, session_row

T = TypeVar("T")

LEASE: Final = 6.0
INTERVAL: Final = LEASE / 3
CALL: Final = 0.001
"""Seconds that a call of the store takes."""


class Fault(NamedTuple):
    """What happens at a call. `kind`: kill, stop, lost (the call is not made) or unheard (its answer is lost).

    `after`: the manager is killed or stopped after the call, not before it. `seconds`: how long it is stopped.
    """

    kind: str
    after: bool = False
    seconds: float = 0.0


class Killed(BaseException):
    """The manager is dead."""


class Engine:
    """Serves slices. `slow`: how many more steps the statements of those let go are under way."""

    def __init__(self, slow: int = 0) -> None:
        self.serving: set[Owned] = set()
        self.slow, self.stepped = slow, asyncio.Event()
        self.losses = 0

    async def take(self, owned: Sequence[Owned]) -> None:
        self.serving.update(owned)

    async def release(self, owned: Sequence[Owned]) -> None:
        waited = 0
        while waited < self.slow:
            self.stepped.clear()
            await self.stepped.wait()
            waited += 1
        self.serving.difference_update(owned)

    def lose(self) -> None:
        self.serving.clear()
        self.losses += 1


class Process:
    """A manager, as a process would be."""

    def __init__(self, world: World, name: str, slow: int = 0) -> None:
        self.world, self.name = world, name
        self.clock_ahead = 0.0
        self.loop = asyncio.new_event_loop()
        self.engine = Engine(slow)
        self.state = "alive"
        self.calls = 0
        self.woken = False
        store: Any = self
        self.leadership = Leadership(
            store,
            self._off_loop,
            self.engine,
            name,
            timing=Timing(LEASE, lambda: world.now + self.clock_ahead),
            queues=self._queues,
            signal=lambda addresses: world.signal(addresses),
        )

    # -- the store, as it sees it

    def now(self) -> int:
        return self._call(self.world.store.now)

    def values(self, kind: str, names: Iterable[str] | None = None) -> Any:
        return self._call(lambda: self.world.store.values(kind, names))

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        return self._call(lambda: self.world.store.compare_and_set(kind, name, text, version))

    def _queues(self) -> Mapping[str, int]:
        return self._call(lambda: dict(self.world.queues))

    def _call(self, make: Callable[[], T]) -> T:
        self.calls += 1
        world = self.world
        world.pass_(world.call)
        fault = world.fault_at(self)
        if fault is None:
            return make()
        if fault.after or fault.kind == "unheard":
            value = make()
            self._fail(fault)
            return value
        self._fail(fault)
        return make()

    def _fail(self, fault: Fault) -> None:
        match fault.kind:
            case "kill":
                self.state = "dead"
                raise Killed
            case "stop":
                self.state = "stopped"
                self.world.beside(self, fault.seconds)
                self.state = "alive"
            case _:
                raise StoreUnavailable("no answer")

    async def _off_loop(self, call: Callable[[], T]) -> T:
        return call()

    # -- steps

    def step(self) -> None:
        """Make an iteration; whatever goes on beside it goes on until it waits."""
        if self.state != "alive":
            return
        self.woken = False
        self.engine.stepped.set()
        self._run(self.leadership.step)
        self.world.check()

    def leave(self) -> None:
        self.engine.slow = 0
        self.engine.stepped.set()
        self._run(self.leadership.leave)
        if self.state == "alive":
            self.state = "left"

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            with suppress(StoreUnavailable):  # tried again at the next iteration
                await work()
            for _ in range(10):
                await asyncio.sleep(0)

        try:
            self.loop.run_until_complete(run())
        except Killed:
            self.state = "dead"

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
            self.loop.run_until_complete(asyncio.wait([task]))
        self.loop.close()


class World:
    """The store, its clock, and the managers."""

    def __init__(self, queues: Mapping[str, int], faults: Callable[[Process], Fault | None] | None = None) -> None:
        """`faults`: returns what happens at a call of a manager."""
        self.clock = FrozenClock()
        self.store = MemoryStore(self.clock)
        self.queues = dict(queues)
        self.now = 1000.0
        self.call = CALL
        self.regular = True
        """False once the store's clock was set: then ownership need not be exclusive."""
        self.processes: list[Process] = []
        self._faults = faults

    def start(self, name: str, slow: int = 0) -> Process:
        process = Process(self, name, slow)
        self.processes.append(process)
        return process

    def fault_at(self, process: Process) -> Fault | None:
        self.check()
        return self._faults(process) if self._faults is not None else None

    def pass_(self, seconds: float) -> None:
        """Let time pass, on all clocks."""
        self.now += seconds
        self.clock.at += int(seconds * SECOND)

    def set_clock(self, seconds: float) -> None:
        """Set the store's clock forward or back."""
        self.regular = False
        self.clock.at += int(seconds * SECOND)

    def signal(self, addresses: Sequence[str]) -> None:
        for process in self.processes:
            process.woken |= process.name in addresses

    def round(self, seconds: float = INTERVAL) -> None:
        """Let an interval pass, and each manager make its iteration, and those that are woken."""
        self.pass_(seconds)
        for process in list(self.processes):
            process.step()
        for _ in range(20):
            woken = [process for process in self.processes if process.woken or process.leadership._woken.is_set()]
            for process in woken:
                process.step()

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.round()

    def beside(self, stopped: Process, seconds: float) -> None:
        """Let the others go on for some time while one is stopped; then it is, and finds what they have left."""
        others = [one for one in self.processes if one is not stopped and not one.loop.is_running()]

        def go_on() -> None:
            left = seconds
            while left > 0:
                self.pass_(min(INTERVAL, left))
                left -= INTERVAL
                for process in others:
                    process.step()

        beside(go_on)

    # -- what must be true

    def check(self) -> None:
        """No two managers serve a lane while their sessions are sure to last."""
        if not self.regular:
            return
        served: dict[str, list[tuple[tuple[int, int], str]]] = defaultdict(list)
        for process in self.processes:
            if process.state in ("alive", "stopped") and process.leadership.seconds_left() > 0:
                for owned in process.engine.serving:
                    served[owned.queue].append((owned.lanes, process.name))
        for queue, lanes in served.items():
            lanes.sort()
            for (one, its), (other, another) in pairwise(lanes):
                if other[0] <= one[1]:
                    raise Twice(f"lanes {one} and {other} of {queue!r} are served by {its} and {another}")

    def check_quiet(self) -> None:
        """Each slice is served once, by whom it belongs to, in memory as in the store; nothing else is left."""
        alive = [one for one in self.processes if one.state == "alive"]
        slices = {one.name: one for queue, lanes in self.queues.items() for one in slices_of(queue, lanes)}
        sessions = {value.name: session_row(value) for value in self.store.values(SESSION)}
        rows = {value.name: slice_row(value) for value in self.store.values(SLICE)}
        assert sessions.keys() == {one.leadership.session for one in alive}
        assigned = assigned_in(View(slices, rows, sessions, 0, 0))
        assert {name: row.owner for name, row in rows.items()} == assigned
        for process in alive:
            mine = {
                Owned(row.queue, slices[name].number, row.epoch, slices[name].lanes)
                for name, row in rows.items()
                if row.owner == process.leadership.session
            }
            assert process.engine.serving == set(process.leadership.owned) == mine
            assert process.leadership.seconds_left() > 0
        for queue in self.queues:
            numbers = Counter(row.owner for row in rows.values() if row.queue == queue)
            of_each = [numbers[one.leadership.session] for one in alive]
            assert max(of_each) - min(of_each) <= 1

    def close(self) -> None:
        for process in self.processes:
            process.close()


class Twice(AssertionError):
    """A lane is served twice."""


def beside(work: Callable[[], None]) -> None:
    """Do something while the event loop of a manager waits for it; it may run those of others."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in failed:
        raise error
