"""Lanes: claims go round all lanes that have due jobs."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count
from typing import Any

import pytest

from stanchion import Job, Push, Queue, Stanchion
from stanchion.context.shard import shuffle_shard
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, StoreClock, all_at_once, claim, new_job, payloads

LANES = 4


@pytest.fixture
def laned(q: Queue) -> Queue:
    """A queue with LANES lanes."""
    q.configure(lanes=LANES)
    return q


def fill(store: Store, jobs: int, *lanes: int | None, **fields: Any) -> None:
    """Store so many jobs in each of the lanes; None for no lane."""
    for lane in lanes:
        stored = UNLANED if lane is None else lane
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


class TestRoundRobin:
    def test_goes_round_the_lanes(self, laned: Queue, store: Store) -> None:
        fill(store, 10, *range(LANES))
        taken = [laned.reserve()[0].lane for _ in range(10 * LANES)]
        assert taken == list(range(LANES)) * 10
        assert laned.reserve() == []

    def test_goes_on_in_the_next_batch(self, laned: Queue, store: Store) -> None:
        fill(store, 10, *range(LANES))
        taken = [lane for size in (3, 1, 6, 7, 30) for lane in lanes_of([*laned.reserve(size)])]
        assert taken == list(range(LANES)) * 10

    def test_is_shared_by_all_processes(self, laned: Queue, store: Store, other_q: Queue, app: Stanchion) -> None:
        fill(store, 10, *range(LANES))
        consumers = (laned, other_q, app.queue(QUEUE))
        taken = [consumers[n % 3].reserve()[0].lane for n in range(10 * LANES)]
        assert taken == list(range(LANES)) * 10

    @pytest.mark.usefixtures("laned")
    def test_holds_for_pop_and_for_a_worker(self, store: Store) -> None:
        fill(store, 3, *range(LANES))
        ways = (
            lambda: pop(store, Claim(QUEUE, 1, "")).rows,
            lambda: claim(store, worker="w"),
            lambda: claim(store),
        )
        taken = [ways[n % 3]()[0].lane for n in range(3 * LANES)]
        assert taken == [*range(LANES)] * 3

    @pytest.mark.usefixtures("laned")
    def test_gives_racing_consumers_as_many_jobs_of_each_lane(self, store: Store, stores: list[Store]) -> None:
        fill(store, 90, *range(LANES))
        taken: Counter[int] = Counter()
        lock = threading.Lock()

        def consumer(own: Store) -> None:
            for size in (1, 1, 3, 1, 2) * 5:
                while not (rows := claim(own, size)):  # on a slow machine another claimer has the queue
                    pass
                assert len(rows) == size
                with lock:
                    taken.update(stored_lanes_of(rows))

        all_at_once([lambda own=own: consumer(own) for own in stores])  # type: ignore[misc]
        assert taken == dict.fromkeys(range(LANES), 80)

    def test_passes_over_lanes_that_are_empty(self, laned: Queue, store: Store) -> None:
        fill(store, 2, 1)
        fill(store, 4, 3)
        assert lanes_of([*laned.reserve(3)]) == [1, 3, 1]
        assert lanes_of([*laned.reserve(5)]) == [3, 3, 3]

    def test_passes_over_lanes_of_scheduled_jobs(self, laned: Queue, store: Store, clock: StoreClock) -> None:
        fill(store, 3, 0, 2)
        fill(store, 3, 1, delay=60, priority=100)
        assert lanes_of([*laned.reserve(3, lease=1000)]) == [0, 2, 0]
        clock.advance(61)
        assert lanes_of([*laned.reserve(6)]) == [1, 2, 0, 1, 2, 1]

    def test_begins_behind_the_lane_that_was_served_last(self, laned: Queue, store: Store) -> None:
        fill(store, 1, 2)
        assert lanes_of([*laned.reserve()]) == [2]
        fill(store, 2, *range(LANES))
        assert lanes_of([*laned.reserve(5)]) == [3, 0, 1, 2, 3]

    def test_begins_at_the_first_lane_of_a_new_queue(self, laned: Queue, store: Store) -> None:
        fill(store, 2, *range(LANES))
        laned.reserve(2)
        laned.delete()
        laned.configure(lanes=LANES)
        fill(store, 2, *range(LANES))
        assert lanes_of([*laned.reserve(2)]) == [0, 1]

    def test_stays_where_it_is_if_a_claim_gets_nothing(self, laned: Queue, store: Store) -> None:
        fill(store, 2, *range(LANES))
        laned.reserve()
        laned.pause()
        assert laned.reserve(5) == []
        laned.resume()
        assert lanes_of([*laned.reserve()]) == [1]

    def test_is_of_each_queue_alone(self, laned: Queue, app: Stanchion, store: Store) -> None:
        other = app.queue("other")
        other.configure(lanes=LANES)
        fill(store, 2, *range(LANES))
        fill(store, 2, *range(LANES), queue="other")
        assert lanes_of([*laned.reserve(3), *other.reserve(2), *laned.reserve(2)]) == [0, 1, 2, 0, 1, 3, 0]


class TestInsideALane:
    def test_priority_then_due_time_then_id(self, laned: Queue, store: Store) -> None:
        now = store.now()
        jobs = [
            new_job(str(n), lane=2, priority=priority, run_at=now - age * SECOND)
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
            (lane, priority) for priority in (7, 7, 5, 5, 3, 3) for lane in (0, 1)
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

    @pytest.mark.usefixtures("laned")
    def test_scheduled_jobs_between_due_ones_leave_the_lane_its_share(self, store: Store) -> None:
        fill(store, 1, 0, priority=10)
        fill(store, 1, 0, priority=5, delay=60)
        fill(store, 1, 0)
        fill(store, 4, 1, priority=10)
        rows = claim(store, 4)
        assert [(row.lane, row.priority) for row in rows] == [(0, 10), (1, 10), (0, 0), (1, 10)]


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
