"""A driver of streams that dies, stalls, or alternates with others, for the cases about them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import ForeignCheckpoint, LeasesLost, StagedJobsLost, StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Move
from stanchion.streams import Position, SinkBatch, StreamSource
from stanchion.streams.sink import begin, rows
from stanchion.streams.state import StreamState, worker_id
from stanchion_conformance.harness import StoreClock, find_jobs, sizes_of, worker

NAME = "etl"
SOURCE, TARGET = "raw", "clean"
POISON = "poison"
REFUSED = (StreamTaken, LeasesLost, StagedJobsLost)
"""What ends a driver that has to start again."""


class Died(BaseException):
    """A process has died in the middle of a step."""


class Failed(Exception):
    """The query has raised an error, and its sink was told so."""


class Mortal:
    """A store as a process sees it that dies at one of its calls: before it, or after it and before the answer.

    All threads of the process die.
    """

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        self._store, self._dies_at, self._after = store, dies_at, after
        self.calls = 0
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return self._deadly(value) if callable(value) else value

    def _deadly(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            dies = self.calls == self._dies_at
            self._dead |= dies and not self._after
            if self._dead:
                raise Died
            answer = verb(*args, **options)
            self._dead |= dies
            if self._dead:
                raise Died
            return answer

        return call


@dataclass
class Log:
    """What a driver has on its disk: the ends of the batches that it began, and how many of them it finished.

    `states`: by number of batches, all payloads that a query with state has seen; `written`: by batch, what a sink
    that knows nothing of the store has got.
    """

    ends: list[Position] = field(default_factory=list)
    finished: int = 0
    states: dict[int, list[Any]] = field(default_factory=lambda: {0: []})
    written: dict[int, list[Any]] = field(default_factory=dict)

    @property
    def state(self) -> list[Any]:
        """The state after the last batch that was finished, in order."""
        return sorted(self.states[self.finished])


class Driver:
    """Processes a stream as Spark does: log the end of a batch, run it, log that it is finished."""

    def __init__(
        self, store: Store, log: Log, mode: str, limit: int = 4, queue: str = SOURCE, name: str = NAME
    ) -> None:
        self.store, self.log, self.mode, self.limit, self.name = store, log, mode, limit, name
        self.source = StreamSource(store, name, queue)
        self.run = new_id()
        self.cured: tuple[str, ...] = ()

    def steps(self) -> Iterator[str]:
        """Run until there is nothing more to do, with a stop wherever another may come in between."""
        while True:
            number = self.log.finished
            start = self.log.ends[number - 1] if number else self.source.initial()
            yield "initial"
            if len(self.log.ends) == number:
                end = self.source.latest(start, self.limit)
                yield "reserved"
                if end == start:
                    return
                if len(self.log.ends) == number:
                    self.log.ends.append(end)
                if self.log.ends[number] != end:
                    raise StreamTaken(self.name)  # another has written the log
                yield "logged"
            seen: list[Any] = []
            yield from self._batch(number, start, self.log.ends[number], seen)
            self.log.states[number + 1] = self.log.states.get(number, []) + seen
            self.log.finished = max(self.log.finished, number + 1)
            yield "finished"

    def _batch(self, number: int, start: Position, end: Position, seen: list[Any]) -> Iterator[str]:
        run, attempts = f"{self.run}:{number}", []
        for part in self.source.parts(start, end, 2):
            yield "divided"
            begin(self.store, part, run)
            yield "begun"
            found = rows(self.store, part)
            yield "read"
            seen += [json.loads(row.payload) for row in found]
            batch = SinkBatch.read_by(self.store, self.name, run)
            if batch is None:
                raise StreamTaken(self.name)
            if poison := [row.payload for row in found if POISON in str(row.payload) and POISON not in self.cured]:
                batch.failed(f"ValueError: {poison[0]!s}")
                raise Failed
            # A job that says so is dropped.
            kept = [row for row in found if "drop" not in row.payload]
            if self.mode == "foreign":
                continue
            if self.mode == "move":
                for row in kept:
                    batch.settle([Move(row.lease, TARGET, row.payload)])
                    yield "moved"
            else:
                attempts.append((str(uuid4()), len(kept)))
                self.store.stage(batch.write, attempts[-1][0], [out(str(row.payload)) for row in kept])
                yield "staged"
        if self.mode == "foreign":
            self.log.written[number] = list(seen)
            return
        yield "done"
        batch = SinkBatch.read_by(self.store, self.name, run)
        if batch is None:
            raise StreamTaken(self.name)
        yield "found"
        if self.mode == "move":
            batch.drop_rest()
        else:
            batch.publish([one for one in attempts if one[1]])
        yield "committed"

    def work(self) -> int:
        """Run to the end; return the number of steps."""
        return sum(1 for _ in self.steps())


class Pausing:
    """A store that delays one call of a verb, while others act."""

    def __init__(self, store: Store, verb: str) -> None:
        self._store, self._verb = store, verb
        self.meanwhile: Callable[[], Any] | None = None

    def hold_up(self, verb: str, meanwhile: Callable[[], Any]) -> None:
        """Hold up the next call of another verb."""
        self._verb, self.meanwhile = verb, meanwhile

    def __getattr__(self, name: str) -> Any:
        if name == self._verb and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return getattr(self._store, name)


class Actor:
    """A driver in a thread of its own, which makes one call of the store at each `step`."""

    def __init__(self, store: Store, log: Log, mode: str) -> None:
        self._store = store
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = False
        self._error: BaseException | None = None
        self._driver = Driver(cast(Store, self), log, mode)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def step(self) -> bool:
        """Go on up to the next call; False when it has come to its end. An error that no driver may have is raised."""
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        assert self._stopped.acquire(timeout=60)
        if self._error is not None:
            raise self._error
        return not self._ended

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._driver.work()
        except (*REFUSED, ForeignCheckpoint):
            pass
        except BaseException as error:
            self._error = error
        self._ended = True
        self._stopped.release()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        return self._paced(value) if callable(value) else value

    def _paced(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._stopped.release()
            self._go.acquire()
            return verb(*args, **options)

        return call


def out(payload: str) -> NewJob:
    return NewJob(new_id(), TARGET, payload)


def fill(store: Store, count: int, queue: str = SOURCE) -> None:
    store.push([NewJob(new_id(), queue, json.dumps(n)) for n in range(count)])


def outputs(store: Store) -> list[Any]:
    """Return the payloads that have arrived at the end."""
    return sorted(json.loads(row.payload) for row in find_jobs(store, queue=TARGET, limit=10_000))


def nothing_left(store: Store) -> bool:
    return sizes_of(store, SOURCE).total == 0


def work_to_the_end(store: Store, log: Log, mode: str, clock: StoreClock) -> None:
    """Start drivers until one finds nothing to do; the reserved jobs of the dead go back in time."""
    for _ in range(6):
        with suppress(*REFUSED):
            Driver(store, log, mode).work()
        if nothing_left(store):
            return
        clock.advance(40)
        store.beat([worker("w")])
        while store.recover():
            pass


@pytest.fixture(params=["move", "append"])
def mode(request: pytest.FixtureRequest, store: Store) -> str:
    """What a sink does with a batch; staged jobs and inputs in one step need a transaction."""
    return str(request.param) if store.capabilities.atomic_batches else "move"


def late_claim(stream: str, seq: int, epoch: int) -> Claim:
    state = StreamState(stream, SOURCE, "", epoch=epoch, reserved=seq - 1)
    return Claim(SOURCE, 10, state.next_token, worker_id(NAME, epoch), repeat=True, rows=False)
