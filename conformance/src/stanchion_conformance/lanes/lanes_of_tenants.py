"""Lanes as the model assigns them: those of a tenant, those of a resized queue, and the settings."""

from __future__ import annotations

from collections import Counter

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.context.shard import shuffle_shard
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, StoreClock, claim, sizes_of
from stanchion_conformance.lanes.lanes import LANES, fill, lanes_of


class TestLaneOfATenant:
    TENANT = "acme"

    @pytest.fixture
    def shard(self, q: Queue) -> tuple[int, ...]:
        q.configure(lanes=8, lanes_per_tenant=3)
        return shuffle_shard(self.TENANT, 8, 3)

    def test_is_the_first_empty_one_else_the_shortest(self, q: Queue, shard: tuple[int, ...]) -> None:
        first, second, third = shard
        pushed = [q.push(n, tenant=self.TENANT) for n in range(5)]
        assert lanes_of(pushed) == [first, second, third, first, second]
        q.cancel(pushed[1].id)
        q.cancel(pushed[4].id)
        assert q.lanes() == {first: 2, third: 1}
        assert [q.push(n, tenant=self.TENANT).lane for n in range(3)] == [second, second, third]

    def test_counts_the_jobs_of_the_same_batch(self, q: Queue, shard: tuple[int, ...]) -> None:
        q.push(0, tenant=self.TENANT)
        assert lanes_of(q.push_many([Push(n, tenant=self.TENANT) for n in range(6)])) == [
            shard[n] for n in (1, 2, 0, 1, 2, 0)
        ]

    def test_counts_scheduled_jobs_and_not_running_ones(self, q: Queue, shard: tuple[int, ...]) -> None:
        q.push(0, tenant=self.TENANT)
        assert q.push(1, tenant=self.TENANT, delay=60).lane == shard[1]
        assert len(q.reserve()) == 1
        assert q.push(2, tenant=self.TENANT).lane == shard[0]
        assert q.push(3, tenant=self.TENANT).lane == shard[2]

    def test_stays_with_the_job(self, q: Queue, shard: tuple[int, ...], clock: StoreClock) -> None:
        pushed = q.push(0, tenant=self.TENANT)
        assert pushed.lane == shard[0]
        q.reserve()[0].rollback(delay=0, error="once more")
        q.reserve(lease=10)
        clock.advance(11)
        (again,) = q.reserve()
        assert (again.id, again.attempt, again.lane) == (pushed.id, 3, shard[0])
        again.bury()
        assert q.retry(pushed.id).lane == shard[0]
        (last,) = q.reserve()
        last.commit()
        assert q.history()[0].lane == shard[0]

    def test_stays_with_a_job_that_is_replaced(self, q: Queue, shard: tuple[int, ...]) -> None:
        q.push(0, tenant=self.TENANT, key="k")
        q.push(1, tenant=self.TENANT, key="k", on_duplicate="replace")
        assert q.lanes() == {shard[0]: 1}

    def test_of_a_duplicate_is_that_of_the_job_which_has_the_key(self, q: Queue, shard: tuple[int, ...]) -> None:
        q.push(0, tenant=self.TENANT, key="k")
        assert q.push(1, tenant=self.TENANT, key="k").lane == shard[0]

    def test_is_given_to_a_job_that_moves_there(self, q: Queue, app: Stanchion, shard: tuple[int, ...]) -> None:
        before = app.queue("before")
        before.push_many([Push(n, tenant=self.TENANT) for n in range(2)])
        for job in before.reserve(2):
            job.move(q.name)
        assert set(q.lanes()) == set(shard[:2])
        assert {job.tenant for job in q.reserve(9)} == {self.TENANT}

    def test_ends_with_a_move_to_a_queue_without_lanes(self, q: Queue, app: Stanchion, shard: tuple[int, ...]) -> None:
        assert q.push(0, tenant=self.TENANT).lane == shard[0]
        q.reserve()[0].move("after")
        assert app.queue("after").lanes() == {None: 1}
        assert lanes_of([*app.queue("after").reserve()]) == [None]

    def test_is_none_for_a_dead_letter(self, app: Stanchion, q: Queue, shard: tuple[int, ...]) -> None:
        source = app.queue("source", dead_letter=q.name)
        source.push(0, tenant=self.TENANT)
        source.reserve()[0].bury("bad")
        q.push(1, tenant=self.TENANT)
        assert q.lanes() == {None: 1, shard[0]: 1}
        assert lanes_of([*q.reserve(5)]) == [shard[0], None]


class TestResizing:
    def test_more_lanes_serve_at_once(self, laned: Queue, store: Store) -> None:
        laned.push_many(range(2 * LANES))
        laned.configure(lanes=16)
        laned.push_many(range(16))
        assert set(laned.lanes()) == set(range(16))
        assert Counter(lanes_of([*laned.reserve(16)])) == Counter(range(16))
        assert sizes_of(store, QUEUE).ready == 2 * LANES

    def test_the_last_job_of_a_lane_that_was_taken_away(self, q: Queue, store: Store) -> None:
        q.configure(lanes=16)
        fill(store, 1, 8)
        q.configure(lanes=8)
        fill(store, 2, 0)
        assert lanes_of([*q.reserve(5)]) == [0, 8, 0]

    def test_old_lanes_are_served_until_they_are_empty(self, q: Queue, store: Store) -> None:
        q.configure(lanes=16)
        fill(store, 3, *range(16))
        q.configure(lanes=2)
        taken = lanes_of([*q.reserve(40)])
        assert taken == (list(range(16)) * 3)[:40]
        q.push_many(range(4))
        assert set(q.lanes()) == {*range(2), *range(8, 16)}
        assert len(q.reserve(99)) == 12

    def test_back_to_one(self, laned: Queue, store: Store) -> None:
        fill(store, 2, *range(LANES))
        laned.configure(lanes=1)
        assert laned.push(0, tenant="acme").lane is None
        assert lanes_of([*laned.reserve(99)]) == [0, 1, 2, 3, None, 0, 1, 2, 3]
        laned.push_many(range(3))
        assert len(laned.reserve(99)) == 3

    def test_processes_that_disagree_strand_nothing(self, laned: Queue, other_q: Queue) -> None:
        tenants = [f"t{n}" for n in range(40)]
        laned.push_many([Push(0, tenant=tenant) for tenant in tenants])
        other_q.configure(lanes=64)
        other_q.push_many([Push(0, tenant=tenant) for tenant in tenants])
        laned.push_many([Push(0, tenant=tenant) for tenant in tenants])  # by the settings of a moment ago
        other_q.configure(lanes=1)
        other_q.push_many(tenants)
        laned.push_many([Push(0, tenant=tenant) for tenant in tenants])
        assert len(laned.reserve(100)) == 100
        assert len(other_q.reserve(200)) == 100

    def test_a_job_in_a_lane_of_a_queue_that_has_none_is_not_lost(self, store: Store, app: Stanchion) -> None:
        fill(store, 1, 5)
        app.queue("before").push(1)
        fill(store, 2, None)
        assert len(claim(store, 9)) == 3
        store.drop_queue(QUEUE)
        fill(store, 2, 7)
        assert len(claim(store, 9)) == 2

    def test_a_queue_without_lanes_has_none(self, q: Queue) -> None:
        assert q.push(1, tenant="acme").lane is None
        (job,) = q.reserve()
        assert (job.lane, job.tenant) == (None, "acme")


class TestLaneSettings:
    def test_a_tenant_has_six_unless_it_is_said(self, q: Queue) -> None:
        assert (q.settings.lanes, q.settings.lanes_per_tenant) == (1, 1)
        assert q.configure(lanes=64).lanes_per_tenant == 6
        assert q.configure(lanes=4).lanes_per_tenant == 4
        assert q.configure(lanes=64).lanes_per_tenant == 4
        assert q.configure(lanes_per_tenant=2).lanes_per_tenant == 2
        assert q.configure(lanes=1).lanes_per_tenant == 1

    def test_of_the_code_are_stored_at_the_first_use(self, app: Stanchion, store: Store) -> None:
        app.queue(QUEUE, lanes=8, lanes_per_tenant=2).push(1, tenant="acme")
        (settings,) = store.queues()
        assert (settings.lanes, settings.lanes_per_tenant, settings.uses_lanes) == (8, 2, True)
        assert list(app.queue(QUEUE).lanes()) == [shuffle_shard("acme", 8, 2)[0]]

    def test_that_fit_in_no_way_are_refused(self, q: Queue) -> None:
        for bad in (0, -1, 1025, 2.0, True, "4", None):
            with pytest.raises(InvalidInput, match="from 1 to 1024"):
                q.configure(lanes=bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="lanes of queue"):
            q.configure(lanes=4, lanes_per_tenant=5)
        q.configure(lanes=4)
        with pytest.raises(InvalidInput, match="lanes of queue"):
            q.configure(lanes_per_tenant=5)
        assert q.configure(lanes_per_tenant=4).lanes_per_tenant == 4
