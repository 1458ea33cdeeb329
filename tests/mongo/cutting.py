"""Cuts an act at each of its commands in turn, and has the test clear up and look after each cut."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from stanchion.stores.mongo.store import MongoStore
from stanchion_conformance.harness import NewStore, StoreClock
from tests.mongo.acts import Act, World
from tests.mongo.guillotine import Guillotine, Killed, Way, after, before, halfway, unanswered

Begin = Callable[[World], Act]
Check = Callable[[MongoStore, World], None]

MOST_COMMANDS = 200


class Cutting:
    """One act, cut in all ways."""

    def __init__(self, new_store: NewStore, clock: StoreClock, guillotine: Guillotine, check: Check) -> None:
        self._new_store, self._clock, self._guillotine, self._check = new_store, clock, guillotine, check
        other = new_store()
        assert isinstance(other, MongoStore)
        self._other = other

    def dies(self, begin: Begin) -> None:
        """Let the process die before each command that writes, and in the middle of each that writes much."""
        for at, way in self._deaths(begin):
            self._cut(begin, at, way)

    def dies_and_is_repeated(self, begin: Begin) -> None:
        """Let the process die there, and another one do the same again."""
        for at, way in self._deaths(begin):
            self._cut(begin, at, way, lambda act: act(self._other))

    def loses_an_answer(self, begin: Begin) -> None:
        """Lose the answer to each command that writes: what the act returns is the same."""
        expected = self._undisturbed(begin)
        for at in self._guillotine.writes:
            assert self._cut(begin, at, unanswered) == expected, f"at command {at}"

    def meets_another(self, begin: Begin) -> None:
        """Let another process do the same before each command."""
        for at in range(1, MOST_COMMANDS):
            world = self._world()
            act = begin(world)
            with self._guillotine.falls(at, after(lambda act=act: act(self._other))):  # type: ignore[misc]
                act(world.store)
            commands = self._guillotine.commands
            self._check(self._other, world)
            if commands < at:
                assert commands, "there was nothing to cut"
                return
        pytest.fail("it never ends")

    def meets_a_recovery(self, begin: Begin) -> None:
        """Let another process, to whom all of it looks stale, recover the outbox before each command that writes."""

        def recover_outbox() -> None:
            self._clock.advance(5)
            self._other.recover(limit=0)

        self._undisturbed(begin)
        for at in self._guillotine.writes:
            self._cut(begin, at, after(recover_outbox))

    def _undisturbed(self, begin: Begin) -> Any:
        """Do it until two runs have as many commands, which the guillotine then knows; return what it returns."""
        counts, done = [-1, -2], None
        while counts[-1] != counts[-2]:  # a run has had one command more than all others
            done = self._cut(begin, 0, before)
            counts.append(self._guillotine.commands)
            assert len(counts) < MOST_COMMANDS, f"no two runs are alike: {counts}"
        assert self._guillotine.writes, "there was nothing to cut"
        return done

    def _deaths(self, begin: Begin) -> list[tuple[int, Way]]:
        self._undisturbed(begin)
        cut = self._guillotine
        return [*((at, before) for at in cut.writes), *((at, halfway) for at in cut.divisible)]

    def _cut(self, begin: Begin, at: int, way: Way, afterwards: Callable[[Act], Any] = lambda _act: None) -> Any:
        world = self._world()
        act, done = begin(world), None
        with suppress(Killed), self._guillotine.falls(at, way):
            done = act(world.store)
        assert self._guillotine.commands >= at, "it was over before"
        afterwards(act)
        self._check(self._other, world)
        return done

    def _world(self) -> World:
        return World(self._new_store(), self._clock)


WAYS: dict[str, Callable[[Cutting, Begin], None]] = {
    "dies": Cutting.dies,
    "repeated": Cutting.dies_and_is_repeated,
    "unanswered": Cutting.loses_an_answer,
    "another": Cutting.meets_another,
    "recovery": Cutting.meets_a_recovery,
}

DAILY = ("repeated",)
"""In most of the others too, processes die or lose an answer, and no other process repeats or disturbs them."""


def cut_at_any_command(acts: Sequence[Begin], check: Check, ways: Sequence[str] = tuple(WAYS)) -> Callable[..., None]:
    """Return a test that cuts each of these acts in all ways; by day one act in one way."""
    each = [way if way in DAILY else pytest.param(way, marks=pytest.mark.nightly) for way in ways]

    @pytest.mark.one_in_each("way", "begin")
    @pytest.mark.parametrize("way", each)
    @pytest.mark.parametrize("begin", acts)
    def cut(begin: Begin, way: str, cutting: Callable[[Check], Cutting]) -> None:
        WAYS[way](cutting(check), begin)

    return cut
