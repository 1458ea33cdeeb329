"""The order of claims: priority, then `run_at`, then id; scheduled jobs delay no other."""

from __future__ import annotations

import random

import pytest

from stanchion import Push, Queue
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, payloads, sizes_of


class TestOrder:
    def test_first_in_first_out(self, q: Queue) -> None:
        for number in range(10):
            q.push(number)
        assert payloads(q.reserve(10)) == list(range(10))

    def test_a_batch_is_first_in_first_out(self, q: Queue) -> None:
        q.push_many(range(50))
        assert [q.reserve()[0].payload for _ in range(50)] == list(range(50))

    def test_jobs_of_the_same_instant_are_all_there_in_the_order_of_their_ids(self, store: Store) -> None:
        now = store.now()
        jobs = [new_job(run_at=now) for _ in range(20)]
        for job in jobs:
            store.push([job])
        assert sizes_of(store, QUEUE).total == 20
        assert [row.id for row in claim(store, 20)] == [job.id for job in jobs]

    def test_ids_decide_only_within_the_same_instant(self, store: Store) -> None:
        now = store.now()
        first_id, second_id = new_job(run_at=now), new_job(run_at=now - 1)
        store.push([first_id, second_id])
        assert [row.id for row in claim(store, 2)] == [second_id.id, first_id.id]

    @pytest.mark.parametrize("batch", [1, 3, 60])
    def test_priority_then_run_at_then_id(self, store: Store, batch: int) -> None:
        now, dice = store.now(), random.Random(7)
        jobs = [
            new_job(priority=dice.choice([-100, -1, 0, 1, 100]), run_at=now - dice.choice([0, 1, 1_000_000]))
            for _ in range(60)
        ]
        store.push(dice.sample(jobs, len(jobs)))
        ranked = sorted(jobs, key=lambda job: (-job.priority, job.run_at, job.id))
        got = [row.id for _ in range(60 // batch) for row in claim(store, batch)]
        assert got == [job.id for job in ranked]

    def test_pop_keeps_the_same_order(self, q: Queue) -> None:
        q.push_many([Push("low", priority=-1), Push("first"), Push("second"), Push("high", priority=1)])
        popped = [q.pop() for _ in range(4)]
        assert [job and job.payload for job in popped] == ["high", "first", "second", "low"]

    def test_a_job_given_back_waits_behind_those_that_were_due_before_it(self, q: Queue) -> None:
        q.push_many(["first", "second"])
        q.reserve()[0].rollback(delay=0)
        assert payloads(q.reserve(2)) == ["second", "first"]

    def test_a_job_whose_lease_was_lost_keeps_its_place(self, q: Queue, clock: StoreClock) -> None:
        q.push_many(["first", "second"])
        q.reserve(lease=10)
        clock.advance(11)
        assert payloads(q.reserve(2)) == ["first", "second"]

    def test_no_more_than_asked_for(self, q: Queue) -> None:
        q.push_many(range(5))
        assert len(q.reserve(3)) == 3
        assert len(q.reserve(3)) == 2
        assert q.reserve(3) == []

    def test_queues_do_not_mix(self, store: Store) -> None:
        store.push([new_job(queue="other"), new_job()])
        assert [row.queue for row in claim(store, 10)] == [QUEUE]
        assert [row.queue for row in claim(store, 10, queue="other")] == ["other"]

    def test_an_unknown_queue_is_empty(self, store: Store) -> None:
        assert claim(store, queue="nowhere") == []
        assert pop(store, Claim("nowhere", 1, "token")).rows == []


class TestScheduledJobsStandAside:
    SCHEDULED = 3000

    def test_whatever_their_number_and_priority(self, store: Store, clock: StoreClock) -> None:
        later = [new_job(priority=number % 101, delay=60 + number) for number in range(self.SCHEDULED)]
        for start in range(0, self.SCHEDULED, 1000):
            store.push(later[start : start + 1000])
        ready = [new_job(priority=-100) for _ in range(20)]
        store.push(ready)
        for job in ready:
            (row,) = claim(store)
            assert row.id == job.id
            assert store.settle([Commit(row.lease)]) == ["done"]
        assert claim(store, 100) == []
        clock.advance(60 + self.SCHEDULED)
        assert len(claim(store, self.SCHEDULED)) == self.SCHEDULED

    def test_of_every_priority_between_the_ready_ones(self, store: Store) -> None:
        for priority in range(-100, 101, 10):
            store.push([new_job(priority=priority, delay=60), new_job(priority=priority)])
        assert [row.priority for row in claim(store, 100)] == list(range(100, -101, -10))

    def test_nor_do_those_that_wait_for_a_retry(self, store: Store) -> None:
        store.push([new_job(priority=100) for _ in range(200)])
        rows = claim(store, 200)
        store.settle([Rollback(row.lease, delay=60) for row in rows])
        low = new_job(priority=-100)
        store.push([low])
        assert [row.id for row in claim(store, 10)] == [low.id]
