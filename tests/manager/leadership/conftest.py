"""Two managers over one store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from uuid import UUID

import pytest

from tests.manager.leadership.model import Fault, Process, World


class At:
    """Does something just before a call of a manager, which may fail then."""

    def __init__(self) -> None:
        self._planned: dict[tuple[Process, int], Callable[[], Fault | None]] = {}

    def __call__(self, process: Process) -> Fault | None:
        do = self._planned.pop((process, process.calls), None)
        return None if do is None else do()

    def call(self, process: Process, number: int, do: Callable[[], Fault | None]) -> None:
        """Do something before one of the next calls, numbered from 1, of a manager."""
        self._planned[process, process.calls + number] = do


@pytest.fixture(autouse=True)
def ids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions have the same ids in each run of a test, and so the same slices."""
    random = Random(request.node.name)
    monkeypatch.setattr("stanchion.manager.leadership.session.uuid4", lambda: UUID(int=random.getrandbits(128)))


@pytest.fixture
def at() -> At:
    return At()


@pytest.fixture
def world(at: At) -> Iterator[World]:
    with closing(World({"orders": 4}, at)) as world:
        yield world


@pytest.fixture
def pair(world: World) -> tuple[Process, Process]:
    """Two managers that have two slices each."""
    one, other = world.start("one"), world.start("other")
    world.rounds(2)
    world.check_quiet()
    return one, other
