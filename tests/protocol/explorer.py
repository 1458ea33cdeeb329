"""Walks through all ways in which a few actors can get in each other's way, or stop for good.

An actor is a script: one operation after the other, each a function of the store and of what the actor has reserved.
It depends on nothing but what its steps give, so how far it has got is told by what they gave. To learn its next step,
its operation is run from the start: earlier steps give what they gave, and it is stopped at the first one that is not
known. This is done once; the step can then be taken in any world. So there are no threads, the code runs as it is, and
any state can be taken up at any time.

States are visited in breadth, each once: the first violation found has a shortest history.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from stanchion.stores.records.slots import Slot
from tests.protocol import judge
from tests.protocol.fake import Fake
from tests.protocol.world import World

Result = TypeVar("Result")
Hand = tuple[tuple[str, str], ...]
"""The jobs that an actor has reserved, each with its token."""

Operation = Callable[[Fake, str, Hand], Hand]
"""Gets the store, a unique name for tokens, and the reserved jobs; returns the jobs reserved afterwards."""

_MOST_STEPS = 400


@dataclass(frozen=True)
class Scenario:
    """Actors by name, each with its script, in a world that `prepare` has made.

    `crashes`: how many of the actors may stop for good. `most`: the capacity of semaphores with other than one slot.
    `ends_once`: no job is ended twice, as none is driven again. `in_order`: jobs of an order key run as enqueued.
    `at_rest`: if no actor has crashed, all is well before outbox recovery. `finally_`: what is wrong in the end.
    """

    prepare: Callable[[Fake], object]
    actors: Mapping[str, tuple[Operation, ...]]
    crashes: int = 1
    most: Mapping[Slot, int] = field(default_factory=dict)
    ends_once: bool = True
    in_order: bool = True
    at_rest: bool = True
    finally_: Callable[[World], Iterator[str]] = lambda _world: iter(())


class Position(NamedTuple):
    """How far an actor has got: operations that are over, the jobs it has reserved, what the steps since then gave.

    `what`: its next step, taken by `take` on the world of `store`; empty when its script is over.
    """

    over: int
    hand: Hand
    given: tuple[Any, ...]
    store: Fake
    what: str = ""
    take: Callable[[], Any] = lambda: None


class State(NamedTuple):
    """A world, where each actor is (None: crashed), and how it came to this: the state before, and what was done."""

    world: World
    places: tuple[int | None, ...]
    came: tuple[State, str] | None = None

    def key(self) -> int:
        """Return what tells states apart."""
        return hash((self.world.key(), self.places))

    def history(self) -> list[str]:
        """Return what was done, from the start."""
        state, done = self, list[str]()
        while state.came is not None:
            state, what = state.came
            done.append(what)
        return done[::-1]


class Violation(AssertionError):
    """Something that must not be, and how it comes to it."""

    def __init__(self, wrong: list[str], state: State) -> None:
        world = state.world
        rows = [f"{row}" for _, row in world.rows.values()]
        parts = [*wrong, "", *state.history(), "", *rows, f"slots: {list(world.slots)}", f"outbox: {world.outbox}"]
        super().__init__("\n".join(parts))
        self.wrong = wrong


class Explored(NamedTuple):
    """How much there was to see: states, steps between them, and worlds in which no actor has anything left to do."""

    states: int
    ways: int
    ends: int


class _Stop(BaseException):
    """The actor has come to a step that is not known yet."""


class _Knowing:
    """Gives what earlier steps gave, and stops at the first that is not known."""

    def __init__(self, given: tuple[Any, ...]) -> None:
        self.left = iter(given)
        self.what = ""
        self.take: Callable[[], Any] = lambda: None

    def __call__(self, what: str, take: Callable[[], Result]) -> Result:
        for result in self.left:
            return result  # type: ignore[no-any-return]
        self.what, self.take = what, take
        raise _Stop


class _Ids:
    """Names outbox entries by their operation, so that they are the same whenever it is run again."""

    def __init__(self) -> None:
        self.name, self.made = "", 0

    def begin(self, name: str) -> None:
        self.name, self.made = name, 0

    def token_hex(self, _length: int) -> str:
        """Stand in for `secrets`."""
        self.made += 1
        return f"{self.name}.{self.made}"


class Explorer:
    """Explores a scenario with the real protocol, or with another class of store: one with a mistake."""

    def __init__(self, scenario: Scenario, store: Callable[..., Fake] = Fake) -> None:
        self.scenario = scenario
        self.store = store
        self.names = tuple(scenario.actors)
        self.start = World()
        self.positions: list[Position] = []
        self.places: dict[Any, int] = {}
        self.known: dict[tuple[int, Any], int] = {}
        self.ids = _Ids()
        self.seen: set[int] = set()
        self.ends: set[int] = set()
        self.ways = 0

    def run(self) -> Explored:
        """Visit all states; raise Violation for the first that is wrong."""
        with mock.patch("stanchion.stores.cas.entries.secrets", self.ids), _uncollected():
            self.ids.begin("prepare")
            self.scenario.prepare(self.store(self.start))
            start = State(self.start, tuple(self._go_on(name, 0, (), ()) for name in self.names))
            self.seen.add(start.key())
            left = deque([start])
            while left:
                state = left.popleft()
                left.extend(self._visit(state))
        return Explored(len(self.seen), self.ways, len(self.ends))

    def _visit(self, state: State) -> Iterator[State]:
        for then in self._ways(state):
            self.ways += 1
            key = then.key()
            if key not in self.seen:
                self.seen.add(key)
                self._judge(then)
                yield then

    def _ways(self, state: State) -> Iterator[State]:
        crashed = state.places.count(None)
        for index, place in enumerate(state.places):
            if place is not None and self.positions[place].what:
                yield self._step(state, index, place)
                if crashed < self.scenario.crashes:
                    yield State(state.world, _put(state.places, index, None), (state, f"{self.names[index]} crashes"))

    def _step(self, state: State, index: int, place: int) -> State:
        over, hand, given, store, what, take = self.positions[place]
        store.rows.world = world = state.world.copy()
        result = take()
        then = self.known.get((place, result))
        if then is None:
            if len(given) > _MOST_STEPS:
                raise Violation([f"{self.names[index]} never ends"], state)
            then = self.known[place, result] = self._go_on(self.names[index], over, hand, (*given, result))
        world.admitted.update(dict.fromkeys(self.positions[then].hand))
        return State(world, _put(state.places, index, then), (state, f"{self.names[index]}: {what}"))

    def _go_on(self, name: str, over: int, hand: Hand, given: tuple[Any, ...]) -> int:
        """Find the next step of an actor; return its place in the list of positions."""
        script = self.scenario.actors[name]
        knowing = _Knowing(given)
        store = self.store(self.start, knowing)
        try:
            while over < len(script):
                self.ids.begin(f"{name}{over}")
                hand = script[over](store, f"{name}{over}", hand)
                over, given = over + 1, ()
        except _Stop:
            pass
        place = self.places.setdefault((name, over, hand, given), len(self.positions))
        if place == len(self.positions):
            self.positions.append(Position(over, hand, given, store, knowing.what, knowing.take))
        return place

    # -- judgement

    def _judge(self, state: State) -> None:
        wrong = list(judge.always(state.world, self.scenario))
        if not wrong and not any(place is not None and self.positions[place].what for place in state.places):
            wrong = self._judge_end(state)
        if wrong:
            raise Violation(wrong, state)

    def _judge_end(self, state: State) -> list[str]:
        crashed = [name for name, place in zip(self.names, state.places, strict=True) if place is None]
        key = hash((state.world.key(), *crashed))
        if key in self.ends:
            return []
        self.ends.add(key)
        if not crashed and self.scenario.at_rest:
            wrong = [f"at rest: {one}" for one in judge.at_rest(state.world)]
            if wrong:
                return wrong
        world = state.world.copy()
        self.ids.begin("survivor")
        return list(judge.in_the_end(self.store(world, judge.BoundedSteps()), crashed, self.scenario))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from very many states, which have no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _put(places: tuple[int | None, ...], index: int, place: int | None) -> tuple[int | None, ...]:
    return (*places[:index], place, *places[index + 1 :])
