"""The database's clock is set back by an hour: what was written before is from the future."""

from __future__ import annotations

from stanchion.stores.protocol import Store
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.telemetry import rollups
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, claim, new_job, row_of, worker
from stanchion_conformance.limits.semaphores import limited, push, took

HOUR = 3600.0
SLOW = Rate("welcome/acme", 0.01)
"""One start in 100 seconds."""


class TestClockSetBack:
    def test_jobs_of_a_worker_that_died_before_come_back(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("dead"), worker("alive")])
        store.push([new_job(), new_job()])
        (lost,), (kept,) = claim(store, worker="dead"), claim(store, worker="alive")
        clock.advance(-HOUR)
        assert store.recover() == []
        for _ in range(2):
            clock.advance(20)
            store.beat([worker("alive")])
        (back,) = store.recover()
        assert (back.id, back.state) == (lost.id, "queued")
        assert row_of(store, kept.id).state == "running"

    def test_a_dead_worker_shares_no_polling_for_an_hour(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("dead"), worker("alive")])
        clock.advance(-HOUR)
        store.beat([worker("alive")])
        store.recover()
        clock.advance(31)
        assert store.beat([worker("alive")])[::2] == (1, 1)

    def test_a_live_worker_keeps_its_jobs(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job()])
        (row,) = claim(store, worker="w")
        clock.advance(-HOUR)
        assert store.recover() == []
        clock.advance(29)
        assert store.recover() == []
        assert row_of(store, row.id).state == "running"

    def test_a_lease_lasts_as_long_as_it_was_to_last(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job(), new_job()])
        (short,) = claim(store, lease=30.0)
        (long,) = claim(store, lease=7200.0)
        assert store.recover() == []
        clock.advance(-HOUR)
        assert store.recover() == []
        clock.advance(31)
        assert [row.id for row in store.recover()] == [short.id]
        clock.advance(7200)
        assert [row.id for row in store.recover()] == [long.id]

    def test_a_process_that_starts_afterwards_sees_leases_from_before(
        self, new_store: NewStore, clock: StoreClock
    ) -> None:
        before = clock.governs(new_store())
        before.push([new_job()])
        (row,) = claim(before, lease=30.0)
        clock.advance(-HOUR)
        started = clock.governs(new_store())
        assert started.recover() == []
        clock.advance(31)
        assert [one.id for one in started.recover()] == [row.id]

    def test_the_rate_of_a_queue_goes_on(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"max_rate": 1.0})
        store.push([new_job() for _ in range(2)])
        assert len(claim(store, 2)) == 1
        clock.advance(-HOUR)
        new = new_job()
        store.push([new])
        started = claim(store)
        clock.advance(2)
        assert [row.id for row in started or claim(store)] == [new.id]

    def test_the_figures_of_queues_go_on(self, store: Store, clock: StoreClock) -> None:
        assert (rollups.take(store), rollups.take(store)) == (True, False)
        clock.advance(-HOUR)
        assert (rollups.take(store), rollups.take(store)) == (True, False)

    def test_a_new_job_of_a_keyed_rate_waits_for_no_promise_of_before(self, store: Store, clock: StoreClock) -> None:
        push(store, *(limited(rate=SLOW) for _ in range(3)))
        assert len(took(store, 3)) == 1  # the others are promised times
        clock.advance(-HOUR)
        (new,) = push(store, limited(rate=SLOW))
        started = took(store)
        clock.advance(101)
        assert started + took(store) == [new]
