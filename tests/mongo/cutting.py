"""Cuts an act at each of its commands in turn, and has the test clear up and look after each cut."""

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.stores.mongo.store import MongoStore
from stanchion.testing.conformance.harness import NewStore, StoreClock
from tests.mongo.acts import Act, World
from tests.mongo.guillotine import Guillotine, Killed, Way, after, before, halfway, unanswered

Begin = Callable[[World], Act]
Check = Callable[[MongoStore, World], None]

MOST_COMMANDS = 200


class Cutting:
    """One act, cut in all ways."""

    def __init__(self, new_store: NewStore, clock: StoreClock, guillotine: Guillotine, check: Check) -> None:
        self._new_store, self._clock, self._guillotine, self._check = new_store, clock, guillotine, check

    def dies(self, begin: Begin, way: Way) -> None:
        """Let the process die at each command; the act is not repeated."""
        self._each(begin, lambda at, world, act: self._die(at, world, act, way))

    def dies_and_is_repeated(self, begin: Begin) -> None:
        """Let the process die in each command, and another one do the same again."""

        def die(at: int, world: World, act: Act) -> None:
            self._die(at, world, act, halfway)
            act(self._new_store())

        self._each(begin, die)

    def loses_an_answer(self, begin: Begin) -> None:
        """Lose the answer to each command: what the act returns is the same."""
        plain = self._world()
        expected = begin(plain)(plain.store)
        self._check(self._store(), plain)

        def lose(at: int, world: World, act: Act) -> None:
            with self._guillotine.falls(at, unanswered):
                assert act(world.store) == expected, f"at command {at}"

        self._each(begin, lose)

    def meets_another(self, begin: Begin) -> None:
        """Let another process do the same before each command."""
        other = self._new_store()

        def meet(at: int, world: World, act: Act) -> None:
            with self._guillotine.falls(at, after(lambda: act(other))):
                act(world.store)

        self._each(begin, meet)

    def meets_a_sweep(self, begin: Begin) -> None:
        """Let another process, to whom all of it looks stale, sweep before each command."""
        other = self._new_store()

        def sweep() -> None:
            self._clock.advance(5)
            other.sweep()

        def meet(at: int, world: World, act: Act) -> None:
            with self._guillotine.falls(at, after(sweep)):
                act(world.store)

        self._each(begin, meet)

    def _die(self, at: int, world: World, act: Act, way: Way) -> None:
        try:
            with self._guillotine.falls(at, way):
                act(world.store)
        except Killed:
            pass

    def _each(self, begin: Begin, cut: Callable[[int, World, Act], Any]) -> None:
        for at in range(1, MOST_COMMANDS):
            world = self._world()
            act = begin(world)
            self._guillotine.commands = 0
            cut(at, world, act)
            commands = self._guillotine.commands
            self._check(self._store(), world)
            if commands < at:
                assert commands, "there was nothing to cut"
                return
        pytest.fail("it never ends")

    def _world(self) -> World:
        return World(self._new_store(), self._clock)

    def _store(self) -> MongoStore:
        store = self._new_store()
        assert isinstance(store, MongoStore)
        return store


WAYS: dict[str, Callable[[Cutting, Begin], None]] = {
    "before": lambda cutting, begin: cutting.dies(begin, before),
    "halfway": lambda cutting, begin: cutting.dies(begin, halfway),
    "repeated": Cutting.dies_and_is_repeated,
    "unanswered": Cutting.loses_an_answer,
    "another": Cutting.meets_another,
    "sweep": Cutting.meets_a_sweep,
}
