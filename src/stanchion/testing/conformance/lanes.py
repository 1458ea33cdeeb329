"""Lanes: every one that holds a due job gets its turn, and a tenant's jobs keep to the tenant's own."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from stanchion import Job, Push, Queue, Stanchion
from stanchion.errors import InvalidInput
from stanchion.ids import new_id
from stanchion.lanes import shuffle_shard, stored_lane
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records import SECOND, UNLANED, Claim, JobRow, Rollback
from stanchion.testing.conformance.harness import (
    QUEUE,
    StoreClock,
    all_at_once,
    claim,
    in_threads,
    new_job,
    payloads,
    row_of,
)

LANES = 4


@pytest.fixture
def laned(q: Queue) -> Queue:
    """A queue with LANES lanes."""
    q.configure(lanes=LANES)
    return q


def fill(store: Store, jobs: int, *lanes: int | None, **fields: Any) -> None:
    """Store so many jobs in each of the lanes; None for no lane."""
    for lane in lanes:
        stored = UNLANED if lane is None else stored_lane(lane)
        store.push([new_job(lane=stored, **fields) for _ in range(jobs)])


def lanes_of(jobs: list[Job]) -> list[int | None]:
    """Return the lanes of jobs, in order."""
    return [job.lane for job in jobs]


def stored_lanes_of(rows: list[JobRow]) -> list[int]:
    """Return the stored lanes of claimed rows, in order."""
    return [row.lane for row in rows]


def disjoint_tenants(lanes: int, size: int) -> tuple[str, str]:
    """Return two tenants that share no lane."""
    names = (f"tenant {n}" for n in count())
    first = next(names)
    shard = set(shuffle_shard(first, lanes, size))
    return first, next(name for name in names if shard.isdisjoint(shuffle_shard(name, lanes, size)))


class TestTurns:
    def test_go_round_the_lanes(self, laned: Queue, store: Store) -> None:
        fill(store, 10, *range(LANES))
        taken = [laned.reserve()[0].lane for _ in range(10 * LANES)]
        assert taken == list(range(LANES)) * 10
        assert laned.reserve() == []

    def test_of_a_batch_go_on_in_the_next(self, laned: Queue, store: Store) -> None:
        fill(store, 10, *range(LANES))
        taken = [lane for size in (3, 1, 6, 7, 30) for lane in lanes_of([*laned.reserve(size)])]
        assert taken == list(range(LANES)) * 10

    def test_are_shared_by_all_processes(self, laned: Queue, store: Store, other_q: Queue, app: Stanchion) -> None:
        fill(store, 10, *range(LANES))
        consumers = (laned, other_q, app.queue(QUEUE))
        taken = [consumers[n % 3].reserve()[0].lane for n in range(10 * LANES)]
        assert taken == list(range(LANES)) * 10

    @pytest.mark.usefixtures("laned")
    def test_are_taken_by_pop_and_by_a_worker_too(self, store: Store) -> None:
        fill(store, 3, *range(LANES))
        ways = (
            lambda: store.pop(Claim(QUEUE, 1, "")),
            lambda: claim(store, worker="w"),
            lambda: claim(store),
        )
        taken = [ways[n % 3]()[0].lane for n in range(3 * LANES)]
        assert taken == [stored_lane(lane) for lane in range(LANES)] * 3

    @pytest.mark.usefixtures("laned")
    def test_of_racing_consumers_are_as_many_for_each_lane(self, store: Store, stores: list[Store]) -> None:
        fill(store, 90, *range(LANES))
        taken: Counter[int] = Counter()
        lock = threading.Lock()

        def consumer(own: Store) -> None:
            for size in (1, 1, 3, 1, 2) * 5:
                rows = claim(own, size)
                assert len(rows) == size
                with lock:
                    taken.update(stored_lanes_of(rows))

        all_at_once([lambda own=own: consumer(own) for own in stores])  # type: ignore[misc]
        assert taken == {stored_lane(lane): 80 for lane in range(LANES)}

    def test_pass_over_lanes_that_are_empty(self, laned: Queue, store: Store) -> None:
        fill(store, 2, 1)
        fill(store, 4, 3)
        assert lanes_of([*laned.reserve(3)]) == [1, 3, 1]
        assert lanes_of([*laned.reserve(5)]) == [3, 3, 3]

    def test_pass_over_lanes_that_hold_only_scheduled_jobs(self, laned: Queue, store: Store, clock: StoreClock) -> None:
        fill(store, 3, 0, 2)
        fill(store, 3, 1, delay=60, priority=100)
        assert lanes_of([*laned.reserve(3, lease=1000)]) == [0, 2, 0]
        clock.advance(61)
        assert lanes_of([*laned.reserve(6)]) == [1, 2, 0, 1, 2, 1]

    def test_begin_behind_the_lane_that_was_served_last(self, laned: Queue, store: Store) -> None:
        fill(store, 1, 2)
        assert lanes_of([*laned.reserve()]) == [2]
        fill(store, 2, *range(LANES))
        assert lanes_of([*laned.reserve(5)]) == [3, 0, 1, 2, 3]

    def test_begin_anew_in_a_new_queue(self, laned: Queue, store: Store) -> None:
        fill(store, 2, *range(LANES))
        laned.reserve(2)
        laned.delete()
        laned.configure(lanes=LANES)
        fill(store, 2, *range(LANES))
        assert lanes_of([*laned.reserve(2)]) == [0, 1]

    def test_are_not_taken_by_a_claim_that_gets_nothing(self, laned: Queue, store: Store) -> None:
        fill(store, 2, *range(LANES))
        laned.reserve()
        laned.pause()
        assert laned.reserve(5) == []
        laned.resume()
        assert lanes_of([*laned.reserve()]) == [1]

    def test_are_of_each_queue_alone(self, laned: Queue, app: Stanchion, store: Store) -> None:
        other = app.queue("other")
        other.configure(lanes=LANES)
        fill(store, 2, *range(LANES))
        fill(store, 2, *range(LANES), queue="other")
        assert lanes_of([*laned.reserve(3), *other.reserve(2), *laned.reserve(2)]) == [0, 1, 2, 0, 1, 3, 0]


class TestInsideALane:
    def test_priority_then_due_time_then_id(self, laned: Queue, store: Store) -> None:
        now = store.now()
        jobs = [
            new_job(str(n), lane=stored_lane(2), priority=priority, run_at=now - age * SECOND)
            for n, (priority, age) in enumerate([(0, 1), (-3, 9), (5, 2), (5, 3), (0, 1), (100, 1)])
        ]
        store.push(jobs)
        assert payloads([*laned.reserve(6)]) == [5, 3, 2, 0, 4, 1]

    def test_a_priority_has_no_weight_in_other_lanes(self, laned: Queue, store: Store) -> None:
        fill(store, 3, 0, priority=100)
        fill(store, 3, 1, priority=-100)
        assert lanes_of([*laned.reserve(6)]) == [0, 1, 0, 1, 0, 1]

    @pytest.mark.usefixtures("laned")
    def test_lower_priorities_follow_in_the_same_claim(self, store: Store) -> None:
        for priority in (7, 5, 3):
            fill(store, 2, 0, 1, priority=priority)
        rows = claim(store, 12)
        assert [(row.lane, row.priority) for row in rows] == [
            (stored_lane(lane), priority) for priority in (7, 7, 5, 5, 3, 3) for lane in (0, 1)
        ]

    def test_a_short_lane_leaves_its_share_to_the_others(self, laned: Queue, store: Store) -> None:
        fill(store, 1, 0)
        fill(store, 20, 1)
        fill(store, 3, 2)
        assert lanes_of([*laned.reserve(20)]) == [0, 1, 2, 1, 2, 1, 2, *[1] * 13]

    def test_scheduled_jobs_of_a_higher_priority_stand_aside(self, laned: Queue, store: Store) -> None:
        for priority in (100, 50, 10):
            fill(store, 3, *range(LANES), priority=priority, delay=60)
        fill(store, 2, *range(LANES))
        assert lanes_of([*laned.reserve(20)]) == list(range(LANES)) * 2


class TestFairness:
    def test_a_heavy_tenant_takes_nothing_from_another(self, q: Queue) -> None:
        heavy, light = disjoint_tenants(64, 6)
        q.configure(lanes=64, lanes_per_tenant=6)
        q.push_many([Push(n, tenant=heavy) for n in range(3000)])
        q.push_many([Push(n, tenant=light) for n in range(60)])
        served = Counter(job.tenant for _ in range(12) for job in q.reserve(10))
        assert served == {heavy: 60, light: 60}

    def test_without_a_tenant_all_lanes_are_used_alike(self, laned: Queue) -> None:
        for n in range(2 * LANES):
            laned.push(n)
        laned.push_many(range(3 * LANES))
        assert laned.lanes() == dict.fromkeys(range(LANES), 5)

    def test_jobs_that_came_before_the_lanes_are_one_lane_more(self, q: Queue, store: Store) -> None:
        q.push_many(range(9))
        assert q.lanes() == {None: 9}
        q.configure(lanes=2)
        fill(store, 3, 0, 1)
        assert lanes_of([*q.reserve(4)]) == [0, 1, None, 0]
        assert lanes_of([*q.reserve(99)]) == [1, None, 0, 1, *[None] * 7]


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
        assert store.sizes(QUEUE).ready == 2 * LANES

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
        assert (settings.lanes, settings.lanes_per_tenant, settings.laned) == (8, 2, True)
        assert list(app.queue(QUEUE).lanes()) == [shuffle_shard("acme", 8, 2)[0]]

    def test_that_fit_in_no_way_are_refused(self, q: Queue) -> None:
        for bad in (0, -1, 1025, 2.0, True, "4", None):
            with pytest.raises(InvalidInput, match="from 1 to 1024"):
                q.configure(lanes=bad)
        with pytest.raises(InvalidInput, match="more than the lanes"):
            q.configure(lanes=4, lanes_per_tenant=5)
        q.configure(lanes=4)
        with pytest.raises(InvalidInput, match="more than the lanes"):
            q.configure(lanes_per_tenant=5)
        assert q.configure(lanes_per_tenant=4).lanes_per_tenant == 4


class TestRangesOfLanes:
    def test_give_only_their_own(self, laned: Queue, store: Store) -> None:
        fill(store, 4, *range(LANES))
        assert lanes_of([*laned.reserve(3, lanes=range(1, 3))]) == [1, 2, 1]
        assert lanes_of([*laned.reserve(99, lanes=range(1, 3))]) == [2, 1, 2, 1, 2]
        assert laned.reserve(99, lanes=range(1, 3)) == []
        assert laned.lanes() == {0: 4, 3: 4}

    def test_go_round_each_for_itself(self, laned: Queue, other_q: Queue, store: Store) -> None:
        fill(store, 6, *range(LANES))
        low, high = [], []
        for _ in range(6):
            low += lanes_of([*laned.reserve(lanes=range(2))])
            high += lanes_of([*other_q.reserve(lanes=range(2, 4))])
        assert (low, high) == ([0, 1] * 3, [2, 3] * 3)
        assert lanes_of([*laned.reserve(4)]) == [0, 1, 2, 3]

    def test_are_shared_by_all_processes(self, laned: Queue, other_q: Queue, store: Store) -> None:
        fill(store, 6, *range(LANES))
        taken = [queue.reserve(lanes=range(1, 4))[0].lane for _ in range(6) for queue in (laned, other_q)]
        assert taken == [1, 2, 3] * 4

    def test_from_the_first_lane_on_have_the_jobs_that_are_in_none(self, q: Queue, store: Store) -> None:
        q.push_many(range(2))
        q.configure(lanes=LANES)
        fill(store, 1, *range(LANES))
        assert lanes_of([*q.reserve(9, lanes=range(2, 4))]) == [2, 3]
        assert lanes_of([*q.reserve(9, lanes=range(2))]) == [0, 1, None, None]

    def test_may_name_lanes_that_are_not_there(self, q: Queue) -> None:
        q.push(1)
        assert q.reserve(lanes=range(5, 9)) == []
        assert lanes_of([*q.reserve(lanes=range(5))]) == [None]

    def test_begin_anew_in_a_new_queue(self, laned: Queue, store: Store) -> None:
        for _ in range(2):
            laned.configure(lanes=LANES)
            fill(store, 2, *range(LANES))
            assert lanes_of([*laned.reserve(1, lanes=range(1, 3))]) == [1]
            laned.delete()

    @pytest.mark.parametrize("bad", [3, [0, 1], range(0), range(0, 8, 2), range(3, 1, -1), range(-1, 3), range(1025)])
    def test_have_no_gaps(self, q: Queue, bad: Any) -> None:
        with pytest.raises(InvalidInput, match="range"):
            q.reserve(lanes=bad)


class TestLanesAndLimits:
    def test_pause(self, laned: Queue, store: Store) -> None:
        fill(store, 1, *range(LANES))
        laned.pause()
        assert laned.reserve(9) == []
        assert laned.pop() is None
        laned.resume()
        assert len(laned.reserve(9)) == LANES

    def test_max_running(self, laned: Queue, store: Store) -> None:
        laned.configure(max_running=3)
        fill(store, 2, *range(LANES))
        jobs = laned.reserve(9)
        assert lanes_of([*jobs]) == [0, 1, 2]
        assert laned.reserve(9) == []
        jobs[0].commit()
        jobs[1].commit()
        assert lanes_of([*laned.reserve(9)]) == [3, 0]

    def test_max_rate(self, laned: Queue, store: Store, clock: StoreClock) -> None:
        laned.configure(max_rate=0.01)
        fill(store, 2, *range(LANES))
        taken = []
        for _ in range(6):
            taken += lanes_of([*laned.reserve(9)])
            clock.advance(101)
        assert taken == [0, 1, 2, 3, 0, 1]

    def test_the_lease_of_the_queue(self, laned: Queue, store: Store, clock: StoreClock) -> None:
        laned.configure(lease=20)
        fill(store, 1, 3)
        laned.reserve()
        clock.advance(19)
        assert laned.reserve() == []
        clock.advance(2)
        assert [job.attempt for job in laned.reserve()] == [2]


class TestLaneDepths:
    def test_depths_are_of_queued_jobs(self, laned: Queue, store: Store) -> None:
        fill(store, 5, 1)
        fill(store, 3, 2, delay=60)
        fill(store, 1, None)
        laned.reserve(2)  # one of lane 1, and the one in none
        assert laned.lanes() == {1: 4, 2: 3}
        assert store.lane_depths(QUEUE) == {stored_lane(1): 4, stored_lane(2): 3}

    def test_depths_can_end_early(self, laned: Queue, store: Store) -> None:
        fill(store, 5, 1, 2)
        fill(store, 1, 0)
        assert store.lane_depths(QUEUE, at_most=3) == {stored_lane(0): 1, stored_lane(1): 3, stored_lane(2): 3}
        assert store.lane_depths(QUEUE, [stored_lane(1), stored_lane(3)], 2) == {stored_lane(1): 2}
        assert store.lane_depths(QUEUE, [stored_lane(2)], None) == {stored_lane(2): 5}
        assert store.lane_depths(QUEUE, []) == {}
        assert laned.lanes() == {0: 1, 1: 5, 2: 5}

    def test_depths_of_an_unknown_queue(self, store: Store) -> None:
        assert store.lane_depths("nowhere") == {}

    def test_sizes_are_of_all_lanes(self, laned: Queue, store: Store) -> None:
        fill(store, 2, None, *range(LANES))
        fill(store, 1, 3, delay=60)
        laned.reserve(3)
        size = laned.size()
        assert (size.total, size.ready, size.scheduled, size.running) == (11, 7, 1, 3)

    @pytest.mark.usefixtures("laned")
    def test_the_next_due_job_is_of_any_lane(self, store: Store) -> None:
        at = store.now() + 1000 * SECOND
        fill(store, 1, 2, run_at=at + 5 * SECOND, priority=100)
        fill(store, 1, 3, run_at=at)
        fill(store, 1, 0, run_at=at + 7 * SECOND)
        assert store.next_due([QUEUE]) == at
        assert store.next_due(["nowhere", QUEUE]) == at

    def test_the_next_due_job_of_a_queue_that_has_just_lost_its_lanes(self, laned: Queue, store: Store) -> None:
        at = store.now() + 1000 * SECOND
        fill(store, 1, 3, run_at=at)
        laned.configure(lanes=1)
        assert store.next_due([QUEUE]) == at


class TestLanesElsewhere:
    def test_waiters_in_two_lanes_are_both_woken(self, laned: Queue, other_q: Queue) -> None:
        taken: list[Job] = []
        waiters = [lambda queue=queue: taken.extend(queue.reserve(wait=30)) for queue in (laned, other_q)]
        with in_threads(waiters):
            laned.push(1)
            laned.push(2)
        assert sorted(payloads(taken)) == [1, 2]

    def test_a_worker_is_drained_here_and_now(self, app: Stanchion, laned: Queue) -> None:
        done: list[str] = []

        @app.task(queue=laned.name, name="note")
        def note(what: str) -> None:
            done.append(what)

        note.enqueue_many([(str(n),) for n in range(2 * LANES)])
        assert app.drain() == 2 * LANES
        assert sorted(done) == [str(n) for n in range(2 * LANES)]

    def test_of_adopted_jobs_stay(self, store: Store, q: Queue) -> None:
        row = JobRow("00000000-0000-7000-8000-000000000001", QUEUE, stored_lane(3), "queued", 0, 1, 1, "1")
        assert store.adopt([row]) == [True]
        assert row_of(store, row.id).lane == stored_lane(3)
        assert q.lanes() == {3: 1}
        assert lanes_of([*q.reserve()]) == [3]

    def test_jobs_are_taken_from_any_lane(self, laned: Queue, store: Store) -> None:
        jobs = [new_job(lane=stored_lane(lane)) for lane in range(LANES)]
        store.push(jobs)
        laned.reserve()
        assert store.take([job.id for job in jobs]) == [job.id for job in jobs[1:]]
        assert laned.lanes() == {}

    @pytest.mark.usefixtures("laned")
    def test_a_repeated_claim_gives_what_it_had(self, store: Store) -> None:
        fill(store, 2, *range(LANES))
        wish = Claim(QUEUE, 5, "once", repeat=True)
        first = store.claim(wish).rows
        assert len(first) == 5
        assert {row.id for row in store.claim(wish).rows} == {row.id for row in first}
        assert stored_lanes_of(claim(store, 1)) == [stored_lane(1)]


PLACES = st.sampled_from([UNLANED, 1, 2, 3, 5])
RANGES = st.sampled_from([None, None, None, (0, 2), (2, 3), (3, 9)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.lists(st.tuples(PLACES, st.integers(0, 2), st.sampled_from([0, 0, 0, 100])))),
        st.tuples(st.just("claim"), st.integers(1, 9), RANGES),
        st.tuples(st.just("pop"), st.integers(1, 3), RANGES),
        st.tuples(st.just("give back")),
        st.tuples(st.just("advance")),
        st.tuples(st.just("max_running"), st.sampled_from([None, 4])),
    ),
    max_size=40,
)


class Both:
    """A store and the reference, to which the same is done; they must hand out the same jobs in the same order."""

    def __init__(self, store: Store, clock: StoreClock, queue: str) -> None:
        self._reference, self._store, self._clock, self._queue = MemoryStore(frozen=True), store, clock, queue
        self._held: list[JobRow] = []

    def step(self, what: str, *args: Any) -> None:
        """Do this to both."""
        self._reference.skew += 0.001  # each step has its own instant, as it has with a clock that runs
        stores = (self._reference, self._store)
        match what, *args:
            case "push", places:
                fields = [{"lane": lane, "priority": priority, "delay": delay} for lane, priority, delay in places]
                jobs = [new_job(queue=self._queue, **each) for each in fields]
                for store in stores:
                    store.push(jobs)
            case "claim" | "pop", limit, lanes:
                wish = Claim(self._queue, limit, new_id(), lease=1e6, lanes=lanes)
                expected, got = ((store.claim(wish).rows if what == "claim" else store.pop(wish)) for store in stores)
                assert [(row.id, row.lane) for row in got] == [(row.id, row.lane) for row in expected]
                self._held += got if what == "claim" else []
            case ("give back",):
                back = [Rollback(row.id, row.token or "", 0.0, refund=True) for row in self._held]
                self._held = []
                for store in stores:
                    store.settle(back)
            case ("advance",):
                self._reference.skew += 60
                self._clock.advance(60)
            case "max_running", limit:
                for store in stores:
                    store.configure(self._queue, {"max_running": limit})
        assert self._store.lane_depths(self._queue) == self._reference.lane_depths(self._queue)


class TestLanesAgainstTheReference:
    def test_any_sequence_of_steps(self, store: Store, clock: StoreClock) -> None:
        queues = (f"laned{n}" for n in count())

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(steps=STEPS)
        def run(steps: list[tuple[Any, ...]]) -> None:
            both = Both(store, clock, next(queues))
            for step in steps:
                both.step(*step)

        run()
