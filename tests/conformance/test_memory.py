"""The memory store behaves as every store does: with a clock that runs, and with one that stands still."""

import pytest

from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.outcomes import Rollback
from stanchion_conformance import *  # noqa: F403
from stanchion_conformance.harness import NewStore, StoreClock, claim, new_job, worker

del TestFeedInTransactions, TestJoining, TestTogetherInTransactions, TestAnotherDatabase  # noqa: F821
del TestPreparedJobs  # noqa: F821
del TestNoTables, TestRefusedRows  # noqa: F821


@pytest.fixture
def store_factory() -> NewStore:
    store = MemoryStore()
    return lambda: store


class TestToTheMicrosecond:
    """With a clock that stands still, the edges themselves can be seen."""

    @pytest.fixture
    def store_factory(self) -> NewStore:
        store = MemoryStore(FrozenClock())
        return lambda: store

    def test_due_is_not_later_than_now(self, store: MemoryStore, clock: StoreClock) -> None:
        job = new_job(run_at=store.now() + 10 * SECOND)
        store.push([job])
        clock.advance(9.999999)
        assert claim(store) == []
        clock.advance(0.000001)
        assert [row.id for row in claim(store)] == [job.id]

    def test_a_lease_ends_with_its_last_microsecond(self, store: MemoryStore, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, lease=10.0)
        clock.advance(9.999999)
        assert store.recover() == []
        clock.advance(0.000001)
        assert store.settle([Rollback(row.lease, 0.0)]) == [None]
        assert [back.id for back in store.recover()] == [row.id]

    def test_the_third_heartbeat_is_the_last_to_miss(self, store: MemoryStore, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job()])
        claim(store, worker="w")
        clock.advance(29.999999)
        assert store.recover() == []
        clock.advance(0.000001)
        assert len(store.recover()) == 1

    def test_a_clock_that_is_set_back_fires_nothing_early(self, store: MemoryStore, clock: StoreClock) -> None:
        clock.advance(100)
        first, second, third = new_job(priority=2), new_job(priority=-1), new_job(priority=1)
        store.push([first, second, third])
        assert [row.id for row in claim(store)] == [first.id]
        clock.advance(-50)
        assert claim(store, 2) == []
        clock.advance(50)
        assert [row.id for row in claim(store, 2)] == [third.id, second.id]

    def test_two_steps_of_one_instant(self, store: MemoryStore) -> None:
        jobs = [new_job() for _ in range(3)]
        store.push(jobs)
        (first,) = claim(store)
        store.settle([Rollback(first.lease, 0.0)])
        assert [row.id for row in claim(store, 3)] == [job.id for job in jobs]
