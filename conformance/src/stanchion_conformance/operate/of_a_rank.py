"""Queries for the queued jobs of one rank in a lane, as a reader ahead of claims asks for them."""

from __future__ import annotations

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, UNLANED, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import HOLDER_BOOST
from stanchion_conformance.harness import QUEUE, claim, new_job, row_of

OTHER = "other"


def ahead(store: Store, lane: int, rank: int, until: int, limit: int = 100) -> list[str]:
    """Return the ids of the queued jobs of a rank in a lane that are due by then, on all pages."""
    where = (
        *(Condition("queue", "=", QUEUE), Condition("lane", "=", lane), Condition("rank", "=", rank)),
        Condition("run_at", "<=", until),
    )
    query = Query("live", where, order="due", limit=limit, columns=("id", "rank", "run_at", "lane"))
    found: list[str] = []
    while True:
        page = store.select(query)
        found += [job for job, *_ in page.rows]
        assert all(row[1:] == (rank, row_of(store, row[0]).run_at, lane) for row in page.rows)
        if page.next is None:
            return found
        query = Query("live", where, order="due", limit=limit, columns=query.columns, after=page.next)


class TestOfOneRank:
    def test_each_rank_of_each_lane_in_its_order(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 3, "uses_lanes": True})
        at = store.now() - 1000 * SECOND
        jobs = [new_job(lane=n % 3, priority=10 * (n % 2), run_at=at - n // 7) for n in range(42)]
        unlaned = [new_job(priority=10, run_at=at), new_job(priority=-3, run_at=at)]
        store.push([*jobs, *unlaned, *(new_job(queue=OTHER, priority=10, lane=1) for _ in range(3))])

        def wanted(lane: int, rank: int) -> list[str]:
            its = [job for job in (*jobs, *unlaned) if (job.lane, job.priority) == (lane, rank)]
            return [job.id for job in sorted(its, key=lambda job: (job.run_at or 0, job.id))]

        for lane in (UNLANED, 0, 1, 2, 3):
            for rank in (10, 0, -3):
                for limit in (1, 3, 100):
                    assert ahead(store, lane, rank, at, limit) == wanted(lane, rank), (lane, rank, limit)

    def test_only_those_due_by_then(self, store: Store) -> None:
        now = store.now()
        jobs: list[NewJob] = [new_job(run_at=now + n * SECOND) for n in range(-2, 8)]
        store.push(jobs)
        for seconds in (-3, -2, 0, 5, 9):
            wanted = [job.id for job in jobs if (job.run_at or 0) <= now + seconds * SECOND]
            assert ahead(store, UNLANED, 0, now + seconds * SECOND, 2) == wanted

    def test_neither_running_nor_finished_ones(self, store: Store) -> None:
        jobs = [new_job() for _ in range(5)]
        store.push(jobs)
        rows = claim(store, 3)
        store.settle([Commit(rows[0].lease)])
        left = [job.id for job in jobs if job.id not in {row.id for row in rows}]
        assert ahead(store, UNLANED, 0, store.now()) == left
        of_rank = Query("all", (Condition("queue", "=", QUEUE), Condition("rank", "=", 0)), order="id")
        live = {row.id for row in store.select(of_rank).rows}
        assert live == {job.id for job in jobs} - {rows[0].id}

    def test_a_granted_one_by_its_rank(self, store: Store) -> None:
        limits = limits_text(Limits(("s",)))
        first, second = new_job(limits=limits, priority=5), new_job(limits=limits, priority=5)
        store.push([first, second])
        rows = claim(store, 9)
        assert [row.id for row in rows] == [first.id]
        assert not ahead(store, UNLANED, 5, store.now())
        store.settle([Commit(rows[0].lease)])
        assert not ahead(store, UNLANED, 5, store.now())
        assert ahead(store, UNLANED, 5 + HOLDER_BOOST, store.now()) == [second.id]
