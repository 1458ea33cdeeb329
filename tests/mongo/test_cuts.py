"""A process that dies, or loses an answer, at any command of any verb: no job is lost, doubled or stuck."""

from collections.abc import Callable

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.queues import Counts
from stanchion_conformance.harness import NewStore, StoreClock, counts_of, sizes_of
from tests.mongo.acts import ACTS, World
from tests.mongo.aftermath import finish, jobs, take_back
from tests.mongo.cutting import MOST_COMMANDS, cut_at_any_command
from tests.mongo.guillotine import Guillotine, after


@pytest.fixture
def guillotine(monkeypatch: pytest.MonkeyPatch) -> Guillotine:
    return Guillotine(monkeypatch)


@pytest.mark.parametrize("limits", [{"max_running": 2}, {"max_rate": 0.001}, {"max_running": 3, "max_rate": 20.0}])
def test_limits_hold_when_a_claimer_stalls_at_any_command(
    limits: dict[str, float], new_store: NewStore, clock: StoreClock, guillotine: Guillotine
) -> None:
    other = new_store()
    most = int(limits.get("max_running", 1))
    for at in range(1, MOST_COMMANDS):
        world = World(new_store(), clock)
        world.store.configure(world.queue, limits)
        world.push(6)
        claimed: list[JobRow] = []

        def claim(store: Store, world: World = world, claimed: list[JobRow] = claimed) -> None:
            claimed += store.claim(Claim(world.queue, 4, new_id())).rows

        def overtake(world: World = world, claim: Callable[[Store], None] = claim) -> None:
            world.clock.advance(4)  # any turn is over
            claim(other)

        with guillotine.falls(at, after(overtake)):
            claim(world.store)
        assert len({row.id for row in claimed}) == len(claimed) <= most
        assert sizes_of(world.store, world.queue).running == len(claimed)
        world.store.drop_queue(world.queue)
        if guillotine.commands < at:
            assert claimed
            return
    pytest.fail("it never ends")


def check(store: Store, world: World) -> None:
    """Clear up as other processes would, finish what is live, and see that each job ended once."""
    done = {row.id for row in jobs(store, world) if row.state == JobState.DONE}
    take_back(store, world)
    store.maintain()
    limit = next((one.max_running for one in store.queues() if one.name == world.queue), None)

    def see(rows: list[JobRow]) -> None:
        assert limit is None or sum(row.queue == world.queue for row in rows) <= limit
        for row in rows:
            assert row.id not in done, "a job that was done ran again"
            done.add(row.id)

    finish(store, world, see)
    found = jobs(store, world)
    assert all(row.finished_at is not None for row in found)
    assert len({row.id for row in found}) == len(found)
    if not world.may_vanish:
        assert {row.id for row in found} >= set(world.ids)
    for key in world.keys:
        (pushed,) = store.push([world.new(key=key)])
        assert not pushed.duplicate, "a finished job holds its key"
        assert store.cancel([pushed.id]) == [JobState.CANCELLED]
    for _ in range(2):  # as events, and folded
        here, there = counts_of(store, world.queue), counts_of(store, world.other)
        ours = [row for row in jobs(store, world) if row.id not in world.adopted]
        assert world.may_vanish or here.pushed + there.pushed == len(ours)
        if not world.may_vanish and not world.adopted:
            assert sum(done_in(here) + done_in(there)) == len(done)
        store.maintain()
        assert (counts_of(store, world.queue), counts_of(store, world.other)) == (here, there)
    store.drop_queue(world.queue)
    store.drop_queue(world.other)


def done_in(counts: Counts) -> tuple[int, int]:
    """Return how many jobs were done, in each way."""
    return counts.committed, counts.popped


test_cut_at_any_command = cut_at_any_command(ACTS, check, ["dies", "repeated", "unanswered", "another"])
