"""The heads of queues, and claims of jobs from a rank upward."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, UNLANED
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, state

OTHER = "other 100% 'Q' "


def heads_of(store: Store, queue: str = QUEUE) -> list[tuple[int, int, int]]:
    """Return lane, rank and due time of the heads of a queue."""
    return sorted(head[:3] for head in store.stats([queue], ["heads"])[queue].heads)


class TestHeads:
    def test_of_each_rank_in_each_lane(self, store: Store, clock: StoreClock) -> None:
        jobs = [new_job(priority=p, run_at=store.now() + s * SECOND) for p, s in ((-100, 5), (-100, 3), (100, 9))]
        laned = [new_job(priority=7, lane=lane, queue=OTHER) for lane in (0, 3, 3)]
        store.push([*jobs, *laned])
        assert heads_of(store) == [(UNLANED, -100, jobs[1].run_at), (UNLANED, 100, jobs[2].run_at)]
        assert [head[:2] for head in heads_of(store, OTHER)] == [(0, 7), (3, 7)]
        assert store.stats([QUEUE, "missing"], ["next_due"])["missing"].heads == ()
        before = store.stats([QUEUE], ["heads"])[QUEUE].heads
        assert all(head.due_in > 0 for head in before)
        clock.advance(1000)
        after = store.stats([QUEUE, "missing"], ["heads", "next_due"])
        assert all(head.due_in <= -990 * SECOND for head in after[QUEUE].heads)
        assert (after["missing"].heads, after[QUEUE].next_due) == ((), jobs[1].run_at)

    def test_only_of_queued_jobs(self, app: Stanchion, q: Queue, store: Store) -> None:
        app.semaphore("smtp", 1)
        q.push_many([Push(n, limits=["smtp"], priority=n) for n in (9, 8)])
        assert [job.payload for job in q.reserve(2)] == [9]
        assert heads_of(store) == []
        q.push(0)
        q.pause()
        assert [head[:2] for head in heads_of(store)] == [(UNLANED, 0)]

    def test_a_granted_job_goes_before_all(self, app: Stanchion, q: Queue, store: Store) -> None:
        app.semaphore("smtp", 1)
        q.push_many([Push(n, limits=["smtp"], priority=n) for n in (9, 8)])
        (job,) = q.reserve(2)
        job.commit()
        assert [head[:2] for head in heads_of(store)] == [(UNLANED, 1008)]
        assert [row.priority for row in claim(store, min_rank=1008)] == [8]


SHAPES = {
    "plain": {},
    "limited": {"max_running": 100},
    "with a rate": {"max_rate": 1e6},
    "lanes": {"lanes": 4, "lanes_per_tenant": 1},
    "limited lanes": {"lanes": 4, "lanes_per_tenant": 1, "max_running": 100},
}


class TestMinRank:
    @pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)
    @pytest.mark.parametrize("slots", [False, True], ids=["", "with slots"])
    def test_only_jobs_from_there_up(
        self, app: Stanchion, q: Queue, store: Store, settings: dict[str, Any], slots: bool
    ) -> None:
        app.semaphore("smtp", 100)
        if settings:
            q.configure(**settings)
        options = {"limits": ["smtp"]} if slots else {}
        ranks = [0, 50, -100, 100, 50, 49]
        q.push_many([Push(n, priority=n, **options) for n in ranks])  # type: ignore[arg-type]
        q.push(99, priority=99, delay=1000)
        assert sorted(row.priority for row in claim(store, 9, min_rank=50)) == [50, 50, 100]
        assert claim(store, 9, min_rank=50) == []
        assert [row.priority for row in claim(store, 1, min_rank=-99)] in ([49], [0])
        assert [row.priority for row in claim(store, 9, min_rank=-99)] in ([49], [0])
        assert [row.priority for row in claim(store, 9)] == [-100]

    def test_in_a_range_of_lanes(self, store: Store) -> None:
        jobs = [new_job(priority=priority, lane=lane) for lane in range(3) for priority in (1, 2, 3)]
        store.push(jobs)
        rows = claim(store, 9, lanes=(1, 2), min_rank=2)
        assert sorted((row.lane, row.priority) for row in rows) == [(1, 2), (1, 3), (2, 2), (2, 3)]
        assert [(row.lane, row.priority) for row in claim(store, 9, lanes=(1, 1))] == [(1, 1)]

    def test_many_that_have_to_wait_are_no_obstacle(self, app: Stanchion, q: Queue, store: Store) -> None:
        app.semaphore("smtp", 0)
        q.push_many([Push(n, limits=["smtp"], priority=9) for n in range(300)])
        low, high = q.push("low", priority=7), q.push("high", priority=8)
        rows = [row for _ in range(100) for row in claim(store, 2, min_rank=8)]
        assert [row.id for row in rows] == [high.id]
        assert state(store, low.id) == "ready"

    def test_after_a_lost_reply_it_gives_the_same(self, q: Queue, store: Store) -> None:
        q.push_many([Push(n, priority=n) for n in range(3)])
        wanted = Claim(QUEUE, 3, "token", worker="w", min_rank=1)
        first = store.claim(wanted).rows
        again = store.claim(wanted._replace(limit=0, repeat=True)).rows
        assert sorted(row.id for row in first) == sorted(row.id for row in again)
        assert len(first) == 2
