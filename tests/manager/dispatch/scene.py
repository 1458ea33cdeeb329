"""A store whose calls can be failed and held, a session, and an engine over them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from stanchion.core.ids import new_ids
from stanchion.errors import StoreUnavailable
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.window.watcher import Watcher
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow, NewJob
from stanchion.stores.records.query import Condition, Query
from tests.manager.dispatch.virtual import now

T = TypeVar("T")

QUEUE = "q"
ALL = (UNLANED, 1023)
LEASE = 5.0


class LoopClock:
    """The clock of the store: that of the event loop."""

    clock_offset = 0.0

    def now(self) -> int:
        return int((1_700_000_000 + now() + self.clock_offset) * SECOND)


class ScriptedStore:
    """The memory store; each call of a verb takes the next of its scripts, if there is one.

    A script gets the call to make, and returns or raises what the engine sees. `calls`: how often each was called.
    """

    def __init__(self) -> None:
        self.inner = MemoryStore(LoopClock())
        self.scripts: dict[str, list[Callable[[Callable[[], Any]], Any]]] = {}
        self.always: dict[str, Callable[..., Any]] = {}
        """What is called in place of a verb, with the verb as its first argument."""
        self.calls: Counter[str] = Counter()
        self.hold: asyncio.Event | None = None
        """Until it is set, the reply of the call under way is held back."""

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self.inner, verb)
        if verb.startswith("_") or not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            self.calls[verb] += 1
            scripts = self.scripts.get(verb)
            own = partial(self.always[verb], method) if verb in self.always else method
            make = partial(own, *args, **options)
            return scripts.pop(0)(make) if scripts else make()

        return call

    # -- scripts

    def next(self, verb: str, *scripts: Callable[[Callable[[], Any]], Any]) -> None:
        """Script the next calls of a verb."""
        self.scripts.setdefault(verb, []).extend(scripts)

    def hold_reply(self, verb: str) -> asyncio.Event:
        """Hold the reply of the next call of a verb, which is made; return what lets it go."""
        event = asyncio.Event()

        def script(make: Callable[[], Any]) -> Any:
            self.hold = event
            return make()

        self.next(verb, script)
        return event


def fail(_make: Callable[[], Any]) -> Any:
    """The store does not answer, and does nothing."""
    raise StoreUnavailable("down")


def lose_reply(make: Callable[[], Any]) -> Any:
    """The store does it, and the reply is lost."""
    make()
    raise StoreUnavailable("cut")


class SilentWatcher(Watcher):
    """Gets no signs; `scene.sign()` gives them."""

    def watch(self, queues: Collection[str]) -> None:
        """Watch nothing."""


class FakeSession:
    """A session that lasts until `deadline`, by the clock of the event loop; None: it is always renewed."""

    session = "s"

    def __init__(self) -> None:
        self.deadline: float | None = None

    def seconds_left(self) -> float:
        return 0.9 * LEASE if self.deadline is None else self.deadline - now()

    @property
    def until(self) -> int:
        end = now() + LEASE if self.deadline is None else self.deadline + 0.1 * LEASE
        return int((1_700_000_000 + end) * SECOND)


class SceneEngine(Engine):
    """An engine with a session of its own."""

    def __init__(self, scene: Scene) -> None:
        store: Any = scene.store
        super().__init__(store, scene.off_loop, delays=scene.delays, clock=now, watcher=SilentWatcher)
        self.session = FakeSession()


class Scene:
    """A store, and what engines need. `latency`: of each call of the store."""

    def __init__(self, latency: float = 0.002, delays: Delays = Delays(lease=LEASE)) -> None:  # noqa: B008 - immutable
        self.store, self.latency, self.delays = ScriptedStore(), latency, delays
        self.under_way = 0

    async def off_loop(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(self.latency / 2)
        try:
            return call()
        finally:
            hold, self.store.hold = self.store.hold, None
            if hold is not None:
                await hold.wait()
            await asyncio.sleep(self.latency / 2)

    @asynccontextmanager
    async def engine(self, *, owns: bool = True, epoch: int = 1) -> AsyncIterator[SceneEngine]:
        """Start an engine; `owns`: it has the whole queue."""
        engine = SceneEngine(self)
        await engine.start(engine.session)
        if owns:
            await engine.take([slice_of(epoch)])
        try:
            yield engine
        finally:
            await engine.close()

    # -- looking at the store

    def rows(self, *where: Condition, of: Any = "all") -> list[JobRow]:
        return self.store.inner.select(Query(of, where, order="id", limit=100_000)).rows

    def states(self) -> Counter[str]:
        """Return the numbers of jobs by stored state."""
        return Counter(row.state for row in self.rows())

    def row(self, job_id: str) -> JobRow:
        return self.store.inner.fetch([job_id])[job_id]

    def done(self, number: int) -> bool:
        return self.store.inner.stats([QUEUE], ["totals"])[QUEUE].totals.committed >= number


def slice_of(epoch: int, queue: str = QUEUE, number: int = 0, lanes: tuple[int, int] = ALL) -> Owned:
    return Owned(queue, number, epoch, lanes)


def jobs(number: int, **fields: Any) -> list[NewJob]:
    return [NewJob(job, **{"queue": QUEUE, "payload": "{}", **fields}) for job in new_ids(number)]
