"""The simulation of many shards: exact, without loss, within the bounds of leadership, and like the product."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from benchmarks.scale.costs import SMALL, Costs
from benchmarks.scale.events import Events
from benchmarks.scale.leading import Leader
from benchmarks.scale.loads import MEASURED, load, loads
from benchmarks.scale.moving import Movement, moving
from benchmarks.scale.owners import Owners
from benchmarks.scale.values import Values, Written
from benchmarks.scale.world import LAYOUTS, PARTITIONS

from tests.scale.real import Group

COSTS = Costs()
TAKE_OVER = COSTS.lease * (1 + 1.1 / 3)
"""The bound: the lease and an interval, which is a third of it and up to a tenth more."""
WORK = 0.5
"""Seconds for the calls of a take-over, all of which take simulated time."""


@pytest.fixture(
    scope="module", params=[(layout, managers) for layout in LAYOUTS for managers in SMALL.managers], ids=str
)
def movement(request: pytest.FixtureRequest) -> Movement:
    layout, managers = request.param
    return moving(layout, managers, SMALL, COSTS, seed=1)


def test_it_is_exact_by_its_seed() -> None:
    assert list(loads(SMALL, COSTS, 1)) == list(loads(SMALL, COSTS, 1))
    for layout in LAYOUTS:
        one, same, other = (moving(layout, 6, SMALL, COSTS, seed) for seed in (1, 1, 2))
        assert one == same
        assert one != other


def test_no_job_is_lost_or_sent_twice(movement: Movement) -> None:
    jobs = movement.jobs
    assert jobs["pushed"] > 10_000
    assert jobs["pushed"] == jobs["sent"] == jobs["done"]
    assert jobs["sent twice"] == 0


def test_jobs_are_cut_off_by_deaths() -> None:
    """Deaths fall into statements under way; else the case before this would say little."""
    slow = COSTS._replace(durable_wait=0.05, claim_wait=0.05)
    jobs = [moving(layout, 6, SMALL, slow, 1).jobs for layout in LAYOUTS]
    assert sum(one["repeated"] for one in jobs) > 0
    assert sum(one["given back"] for one in jobs) > 0


def test_take_overs_keep_to_their_bound(movement: Movement) -> None:
    for moved in movement.moved:
        p50, p99, most = moved.gaps
        assert 0 < p50 <= p99 <= most <= moved.until
        if moved.event in ("dies", "a zone dies"):
            assert COSTS.lease * (1 - 1.1 / 3) < most
            assert moved.until <= TAKE_OVER + WORK
        else:
            assert moved.until <= WORK, "a signal hands slices over"


def test_few_slices_move(movement: Movement) -> None:
    by_event = {moved.event: moved for moved in movement.moved}
    assert by_event["leaves"].share <= 2 / movement.quiet.managers
    assert by_event["joins"].share <= 2 / movement.quiet.managers


def test_an_iteration_is_one_write_and_five_reads(movement: Movement) -> None:
    at_edges = 6 * 5 / (2 * COSTS.lease)  # of iterations that began before the count, or end after it
    assert movement.quiet.reads == pytest.approx(5 * movement.quiet.writes, abs=at_edges)


def test_it_costs_what_was_measured() -> None:
    """Within one and a half times, as the figures that it is made of."""
    found = load(PARTITIONS, 8500.0, MEASURED, COSTS, seed=1)
    assert 0.041 / 1.5 < found.statements < 0.041 * 1.5
    assert 102e-6 / 1.5 < found.manager < 124e-6 * 1.5
    alone = load(PARTITIONS, 20.0, MEASURED._replace(jobs=200), COSTS, seed=1)
    assert alone.statements == pytest.approx(2.0, abs=0.05)


def test_groups_follow_the_load() -> None:
    found = [load(PARTITIONS, rate, SMALL, COSTS, 1) for rate in (20.0, 200.0, 2000.0)]
    assert [one.statements for one in found] == sorted((one.statements for one in found), reverse=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("queues", [{"orders": 64}, {f"orders#{number}": 1 for number in range(20)}], ids=["one", "20"])
def test_it_writes_what_the_product_writes(queues: dict[str, int], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write by write, at the same moments: managers start, join, leave and die."""
    real = Group(queues, COSTS, seed, monkeypatch)
    model = Model(queues, seed)
    try:
        for group in (real, model):
            for _ in range(3):
                group.start()
                group.pass_(0.3)
            group.pass_(4.0)
            group.start()
            group.pass_(4.0)
            group.leave(1)
            group.pass_(4.0)
            group.kill(2)
            group.pass_(9.0)
    finally:
        real.close()
    assert written(model) == written(real)
    assert (model.reads, model.writes) == (real.reads, real.writes)


class Model:
    """The same of the simulation."""

    def __init__(self, queues: dict[str, int], seed: int) -> None:
        self._events, self._seed = Events(), seed
        self._values, self._owners = Values(self._events, queues), Owners(self._events)
        self.leaders: list[Leader] = []

    def start(self) -> None:
        number = len(self.leaders)
        random = Random(f"{self._seed} {number}")
        leader = Leader(self._events, self._values, COSTS, random, self._owners, number)
        leader.tell = self._tell
        self.leaders.append(leader)

    def _tell(self, sessions: Sequence[str]) -> None:
        for leader in self.leaders:
            if leader.session in sessions:
                self._events.after(COSTS.signal_wait, leader.wake)

    def pass_(self, seconds: float) -> None:
        self._events.run(self._events.now + seconds)

    def leave(self, number: int) -> None:
        self.leaders[number].leave()

    def kill(self, number: int) -> None:
        self.leaders[number].kill()

    @property
    def written(self) -> list[Written]:
        return self._values.written

    @property
    def reads(self) -> int:
        return self._values.reads

    @property
    def writes(self) -> int:
        return self._values.writes


def written(group: Model | Group) -> list[tuple[float, str, str, str | None]]:
    """Return the writes; those of one moment in any order."""
    return sorted((round(one.at, 5), one.kind, one.name, one.owner or "") for one in group.written)
