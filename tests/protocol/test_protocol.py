"""Every way in which a few processes can meet, or die, at slots and in flows: see `explorer`."""

from dataclasses import replace

import pytest

from tests.protocol.explorer import Explorer
from tests.protocol.scenarios import FAN_OUTS, FLOWS, ORDER, SEMAPHORES

ALL = {**SEMAPHORES, **ORDER, **FLOWS, **FAN_OUTS}
LARGE = (
    *("head of line after the first", "head of line and slots", "driven again, head of line", "a lost lease"),
    *("the first is lost", "a rate"),
    "both driven again while their end is seen to",
    *("the first is divided, beside outbox recovery", "the first is divided, beside a claimer and outbox recovery"),
    *("a fan-out beside outbox recovery", "a failure beside outbox recovery", "outbox recovery beside work"),
    *("two claimers and a release", "two outbox recoveries"),
)
"""Each has ten thousands of states, or more."""


def explore(name: str, more_crashes: int = 0) -> None:
    scenario = ALL[name]
    crashes = min(scenario.crashes + more_crashes, len(scenario.actors))
    explored = Explorer(replace(scenario, crashes=crashes)).run()
    print(f"{name}, up to {crashes} crashes: {explored}")
    assert explored.ends


@pytest.mark.parametrize("name", [name for name in ALL if name not in LARGE])
def test_nothing_goes_wrong(name: str) -> None:
    explore(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LARGE)
def test_nothing_goes_wrong_among_many(name: str) -> None:
    explore(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in ALL if name not in LARGE and ALL[name].crashes == 1])
def test_nothing_goes_wrong_with_one_more_crash(name: str) -> None:
    explore(name, more_crashes=1)
