"""Managers that are killed, stopped or cut off at each single call of the store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.manager.leadership.model import INTERVAL, LEASE, Fault, Process, World

QUEUES = {"orders": 5, "mail": 1}

FAULTS = [
    Fault("kill"),
    Fault("kill", after=True),
    Fault("lost"),
    Fault("unheard"),
    Fault("stop", after=False, seconds=LEASE * 0.5),
    Fault("stop", after=True, seconds=LEASE * 0.95),
    Fault("stop", after=False, seconds=LEASE * 1.6),
    Fault("stop", after=True, seconds=LEASE * 1.6),
    Fault("stop", after=False, seconds=LEASE * 4),
    Fault("stop", after=True, seconds=LEASE * 4),
]


class One:
    """One fault, at a call by its number among all calls, and the number of calls that there were."""

    def __init__(self, at: int, fault: Fault | None) -> None:
        self.at, self._fault = at, fault
        self.calls = 0

    def __call__(self, _process: Process) -> Fault | None:
        self.calls += 1
        if self.calls == self.at:
            return self._fault
        return None


def play(at: int = 0, fault: Fault | None = None) -> int:
    """Play the scenario with a fault at one of its calls; return the number of calls before the quiet time."""
    fails = One(at, fault)
    with closing(World(QUEUES, fails)) as world:
        world.start("a", slow=1)
        world.round()
        world.start("b", slow=1)
        world.start("c")
        world.rounds(3)
        world.queues["orders"] = 3
        world.round()
        world.queues["news"] = 2
        del world.queues["mail"]
        world.rounds(2)
        if (leaving := world.processes[0]).state == "alive":
            leaving.leave()
        world.rounds(2)
        calls = fails.calls
        world.rounds(int(3 * LEASE / INTERVAL) + 3)
        if any(one.state == "alive" for one in world.processes):
            world.check_quiet()
        return calls


def test_without_a_fault() -> None:
    assert play() > 100


PARTS = 12
"""The points of the faults are dealt out to so many tests, of which one is made each day."""


def cases() -> Iterator[object]:
    for fault in FAULTS:
        for part in range(PARTS):
            marks = [] if part == 0 else [pytest.mark.nightly]
            yield pytest.param(fault, part, marks=marks, id=f"{fault.kind}-{fault.after}-{fault.seconds}-{part}")


@pytest.mark.parametrize(("fault", "part"), list(cases()))
def test_a_fault_at_each_call(fault: Fault, part: int) -> None:
    for at in range(1 + part, play() + 1, PARTS):
        try:
            play(at, fault)
        except BaseException as error:
            error.add_note(f"{fault} at call {at}")
            raise


CALL_SECONDS = 2.5 * LEASE
"""What a call may take until the store gives up."""


class Chance:
    """Faults by chance, of which each manager has at most a few."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        self.rate = 0.0

    def __call__(self, _process: Process) -> Fault | None:
        if self._random.random() >= self.rate:
            return None
        kind = self._random.choice(["kill", "lost", "unheard", "stop", "stop"])
        return Fault(kind, self._random.random() < 0.5, self._random.uniform(0, CALL_SECONDS))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_by_chance(seed: int) -> None:
    random_ = random.Random(seed)
    chance = Chance(random_)
    started = 0
    with closing(World(QUEUES, chance)) as world:
        for _ in range(40):
            chance.rate = random_.choice([0, 0.002, 0.02])
            while sum(one.state == "alive" for one in world.processes) < random_.randint(1, 4):
                started += 1
                world.start(f"m{started}", slow=random_.randrange(3))
            for _ in range(random_.randint(1, 8)):
                world.round(random_.uniform(0.1, 1) * INTERVAL)
            if random_.random() < 0.2:
                world.queues["orders"] = random_.choice([1, 3, 5, 64, 70])
            if random_.random() < 0.2:
                leaving = random_.choice(world.processes)
                if leaving.state == "alive":
                    leaving.leave()
            if random_.random() < 0.3 and world.queues.pop("mail", None) is None:
                world.queues["mail"] = 1
        chance.rate = 0
        world.rounds(int((3 * LEASE + CALL_SECONDS) / INTERVAL) + 3)
        world.check_quiet()
