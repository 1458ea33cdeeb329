"""Lanes with other features: ranges of a claimer, limits of a queue, depths, other verbs."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, Queue, Stanchion
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRef, JobRow
from stanchion_conformance.harness import QUEUE, StoreClock, claim, due_of, in_threads, new_job, payloads, row_of
from stanchion_conformance.lanes.lanes import LANES, fill, lanes_of, stored_lanes_of


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
        laned.configure(lease=2000)
        fill(store, 1, 3)
        laned.reserve()
        clock.advance(1900)
        assert laned.reserve() == []
        clock.advance(200)
        assert [job.attempt for job in laned.reserve()] == [2]


class TestLaneDepths:
    def test_depths_are_of_queued_jobs(self, laned: Queue, store: Store) -> None:
        fill(store, 5, 1)
        fill(store, 3, 2, delay=60)
        fill(store, 1, None)
        laned.reserve(2)  # one of lane 1, and the one in none
        assert laned.lanes() == {1: 4, 2: 3}
        assert store.lane_depths(QUEUE) == {1: 4, 2: 3}

    def test_depths_can_end_early(self, laned: Queue, store: Store) -> None:
        fill(store, 5, 1, 2)
        fill(store, 1, 0)
        assert store.lane_depths(QUEUE, at_most=3) == {0: 1, 1: 3, 2: 3}
        assert store.lane_depths(QUEUE, [1, 3], 2) == {1: 2}
        assert store.lane_depths(QUEUE, [2], 9) == {2: 5}
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
        assert due_of(store, QUEUE) == at
        assert store.stats(["nowhere", QUEUE], ["next_due"])[QUEUE].next_due == at

    def test_the_next_due_job_of_a_queue_that_has_just_lost_its_lanes(self, laned: Queue, store: Store) -> None:
        at = store.now() + 1000 * SECOND
        fill(store, 1, 3, run_at=at)
        laned.configure(lanes=1)
        assert due_of(store, QUEUE) == at


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
        row = JobRow("00000000-0000-7000-8000-000000000001", QUEUE, 3, "queued", 0, 0, 1, 1, "1")
        assert store.adopt([row]) == [True]
        assert row_of(store, row.id).lane == 3
        assert q.lanes() == {3: 1}
        assert lanes_of([*q.reserve()]) == [3]

    def test_jobs_are_taken_from_any_lane(self, laned: Queue, store: Store) -> None:
        jobs = [new_job(lane=lane) for lane in range(LANES)]
        store.push(jobs)
        laned.reserve()
        assert store.delete([JobRef(job.id) for job in jobs]) == [False] + [True] * (LANES - 1)
        assert laned.lanes() == {}

    @pytest.mark.usefixtures("laned")
    def test_a_repeated_claim_gives_what_it_had(self, store: Store) -> None:
        fill(store, 2, *range(LANES))
        wish = Claim(QUEUE, 5, "once", repeat=True)
        first = store.claim(wish).rows
        assert len(first) == 5
        assert {row.id for row in store.claim(wish).rows} == {row.id for row in first}
        assert stored_lanes_of(claim(store, 1)) == [1]
