"""Scans: all live jobs, or all of history."""

from __future__ import annotations

from itertools import chain

import pytest

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.stores.records.query import Condition, Of, Query
from stanchion.stores.rules.query import PAGE
from stanchion_conformance.harness import QUEUE, claim, new_job, row_of


def scanned(store: Store, of: Of, *where: Condition) -> list[JobRow]:
    """Return all jobs of a query, by their ids."""
    return list(chain.from_iterable(pages(store, Query(of, where, order="id", limit=PAGE))))


def ids(store: Store, of: Of, *where: Condition) -> list[str]:
    """Return the ids that a query with these conditions gives."""
    return [row.id for row in scanned(store, of, *where)]


class TestScan:
    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert scanned(store, "live") == []
        assert scanned(store, "history") == []

    def test_live_jobs_and_history_are_apart(self, store: Store) -> None:
        live, done = new_job(), new_job(priority=1)
        store.push([live, done])
        [row] = claim(store)
        store.settle([Commit(row.lease, '"result"')])
        assert scanned(store, "live") == [row_of(store, live.id)]
        assert scanned(store, "history") == [row_of(store, done.id)]

    def test_more_than_a_page_gives_each_job_once(self, store: Store) -> None:
        jobs = [new_job(queue=f"q{n % 3}") for n in range(4500)]
        store.push(jobs)
        assert ids(store, "live") == sorted(job.id for job in jobs)

    def test_a_finished_job_keeps_all_that_is_known_of_it(self, store: Store) -> None:
        store.push([new_job('{"a":1}', tenant="t", headers='{"h":2}', order_key="o", key="k", max_attempts=3)])
        [row] = claim(store)
        store.settle([Bury(row.lease, "broken")])
        [found] = scanned(store, "history")
        assert found == row_of(store, row.id)


class TestConditions:
    def test_names_are_compared(self, store: Store) -> None:
        one = new_job(queue="a", tenant="x", task="t")
        two = new_job(queue="b", tenant="y")
        three = new_job(queue="B", tenant="X", task="u")
        store.push([one, two, three])
        assert ids(store, "live", Condition("queue", "=", "b")) == [two.id]
        assert ids(store, "live", Condition("queue", "in", ("a", "B"))) == [one.id, three.id]
        assert ids(store, "live", Condition("tenant", "=", "x")) == [one.id]
        assert ids(store, "live", Condition("tenant", ">", "x")) == [two.id]
        assert ids(store, "live", Condition("task", "<", "u")) == [one.id], "no task is no match"
        assert ids(store, "live", Condition("queue", "=", "a"), Condition("tenant", "=", "y")) == []
        assert ids(store, "live", Condition("queue", "in", ())) == []

    def test_the_state_is_what_the_outside_sees(self, store: Store) -> None:
        ready, later, running = new_job(), new_job(delay=1000), new_job(priority=1)
        store.push([ready, later, running])
        claim(store)
        assert ids(store, "live", Condition("state", "=", "ready")) == [ready.id]
        assert ids(store, "live", Condition("state", "=", "scheduled")) == [later.id]
        assert ids(store, "live", Condition("state", "in", ("ready", "running"))) == sorted([ready.id, running.id])
        assert ids(store, "live", Condition("state", "=", "done")) == []
        assert ids(store, "history", Condition("state", "=", "ready")) == []

    def test_numbers_and_times_are_compared(self, store: Store) -> None:
        jobs = [new_job(priority=n, run_at=(n + 100) * SECOND) for n in range(-2, 3)]
        store.push(jobs)
        assert ids(store, "live", Condition("priority", ">=", 1)) == [jobs[3].id, jobs[4].id]
        assert ids(store, "live", Condition("priority", "<", -1)) == [jobs[0].id]
        assert ids(store, "live", Condition("priority", "in", (-2, 2))) == [jobs[0].id, jobs[4].id]
        assert ids(store, "live", Condition("run_at", "<=", 99 * SECOND)) == [jobs[0].id, jobs[1].id]
        assert ids(store, "live", Condition("finished_at", ">", 0)) == [], "live jobs have not finished"
        assert ids(store, "live", Condition("started_at", ">", 0)) == []
        assert ids(store, "live", Condition("id", ">=", jobs[3].id)) == [jobs[3].id, jobs[4].id]
        assert ids(store, "live", Condition("id", "=", jobs[3].id)) == [jobs[3].id]

    def test_a_boost_in_the_line_is_not_seen(self, store: Store) -> None:
        store.set_semaphore("s", 1)
        jobs = [new_job(priority=5, limits='{"hold":["s"]}') for _ in range(2)]
        store.push(jobs)
        claim(store, 2)
        [held] = [row for row in scanned(store, "live") if row.state == "running"]
        store.settle([Commit(held.lease)])
        [granted] = ids(store, "live", Condition("priority", "=", 5))
        row = store.fetch([granted])[granted]
        assert row.rank > row.priority
        assert claim(store, 1) == [row_of(store, granted)._replace(past_waits=None)]
        assert row_of(store, granted).priority == 5

    def test_lanes_are_as_stored(self, store: Store) -> None:
        jobs = [new_job(lane=n) for n in range(3)]
        without = new_job()
        store.push([*jobs, without])
        assert [row_of(store, job.id).lane for job in jobs] == [0, 1, 2]
        assert row_of(store, without.id).lane == -1
        assert store.lane_depths(QUEUE) == {-1: 1, 0: 1, 1: 1, 2: 1}
        assert store.lane_depths(QUEUE, [-1, 0, 7]) == {-1: 1, 0: 1}
        assert ids(store, "live", Condition("lane", ">=", 1), Condition("lane", "<=", 1)) == [jobs[1].id]
        assert ids(store, "live", Condition("lane", "<", 0)) == [without.id]

    @pytest.mark.parametrize(
        "condition",
        [Condition("payload", "=", "x"), Condition("queue", "like", "x"), Condition("queue", "in", "x")],  # type: ignore[arg-type]
    )
    def test_others_are_refused(self, store: Store, condition: Condition) -> None:
        with pytest.raises(InvalidInput, match="can't ask"):
            store.select(Query("live", (condition,)))
        with pytest.raises(InvalidInput, match="can't ask"):
            store.partition(Query("live", (condition,)), 2)
