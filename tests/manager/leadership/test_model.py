"""Managers that are killed, stopped or cut off at each single call of the store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.manager.leadership.model import CALL, INTERVAL, LEASE, Fault, Process, World

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

    def __call__(self, process: Process, verb: str) -> Fault | None:
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


def cases() -> Iterator[object]:
    for fault in FAULTS:
        for part in range(PARTS):
            marks = [] if part == 0 else [pytest.mark.nightly]
            yield pytest.param(fault, part, marks=marks, id=f"{fault.kind}-{fault.after}-{fault.seconds}-{part}")


PARTS = 4


@pytest.mark.parametrize(("fault", "part"), cases())
def test_a_fault_at_each_call(fault: Fault, part: int) -> None:
    for at in range(1 + part, play() + 1, PARTS):
        try:
            play(at, fault)
        except BaseException as error:
            error.add_note(f"{fault} at call {at}")
            raise
