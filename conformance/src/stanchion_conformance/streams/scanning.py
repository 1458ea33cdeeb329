"""Scans: all live jobs, or all of history, whole or in parts."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.outcomes import Bury, Commit
from stanchion.stores.records.query import Condition, Scan
from stanchion_conformance.harness import QUEUE, claim, new_job, row_of


def scanned(store: Store, scan: Scan) -> list[JobRow]:
    """Return all jobs of a scan, by their ids."""
    return sorted(chain.from_iterable(store.scan(scan)), key=lambda row: row.id)


def ids(store: Store, of: str, *where: Condition) -> list[str]:
    """Return the ids that a scan with these conditions gives."""
    return [row.id for row in scanned(store, Scan(of, where))]  # type: ignore[arg-type]


class TestScan:
    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert scanned(store, Scan()) == []
        assert scanned(store, Scan("history")) == []
        assert [scanned(store, part) for part in store.split(Scan(), 4)] == [[]]

    def test_live_jobs_and_history_are_apart(self, store: Store) -> None:
        live, done = new_job(), new_job(priority=1)
        store.push([live, done])
        [row] = claim(store)
        store.settle([Commit(row.id, row.token or "", '"result"')])
        assert scanned(store, Scan()) == [row_of(store, live.id)]
        assert scanned(store, Scan("history")) == [row_of(store, done.id)]

    def test_more_than_a_page_gives_each_job_once(self, store: Store) -> None:
        jobs = [new_job(queue=f"q{n % 3}") for n in range(4500)]
        store.push(jobs)
        assert ids(store, "jobs") == sorted(job.id for job in jobs)

    def test_a_finished_job_keeps_all_that_is_known_of_it(self, store: Store) -> None:
        store.push([new_job('{"a":1}', tenant="t", headers='{"h":2}', order_key="o", key="k", max_attempts=3)])
        [row] = claim(store)
        store.settle([Bury(row.id, row.token or "", "broken")])
        [found] = scanned(store, Scan("history"))
        assert found == row_of(store, row.id)


class TestConditions:
    def test_names_are_compared(self, store: Store) -> None:
        one = new_job(queue="a", tenant="x", task="t")
        two = new_job(queue="b", tenant="y")
        three = new_job(queue="B", tenant="X", task="u")
        store.push([one, two, three])
        assert ids(store, "jobs", Condition("queue", "=", "b")) == [two.id]
        assert ids(store, "jobs", Condition("queue", "in", ("a", "B"))) == [one.id, three.id]
        assert ids(store, "jobs", Condition("tenant", "=", "x")) == [one.id]
        assert ids(store, "jobs", Condition("tenant", ">", "x")) == [two.id]
        assert ids(store, "jobs", Condition("task", "<", "u")) == [one.id], "no task is no match"
        assert ids(store, "jobs", Condition("queue", "=", "a"), Condition("tenant", "=", "y")) == []
        assert ids(store, "jobs", Condition("queue", "in", ())) == []

    def test_the_state_is_what_the_outside_sees(self, store: Store) -> None:
        ready, later, running = new_job(), new_job(delay=1000), new_job(priority=1)
        store.push([ready, later, running])
        claim(store)
        assert ids(store, "jobs", Condition("state", "=", "ready")) == [ready.id]
        assert ids(store, "jobs", Condition("state", "=", "scheduled")) == [later.id]
        assert ids(store, "jobs", Condition("state", "in", ("ready", "running"))) == sorted([ready.id, running.id])
        assert ids(store, "jobs", Condition("state", "=", "done")) == []
        assert ids(store, "history", Condition("state", "=", "ready")) == []

    def test_numbers_and_times_are_compared(self, store: Store) -> None:
        jobs = [new_job(priority=n, run_at=(n + 100) * SECOND) for n in range(-2, 3)]
        store.push(jobs)
        assert ids(store, "jobs", Condition("priority", ">=", 1)) == [jobs[3].id, jobs[4].id]
        assert ids(store, "jobs", Condition("priority", "<", -1)) == [jobs[0].id]
        assert ids(store, "jobs", Condition("priority", "in", (-2, 2))) == [jobs[0].id, jobs[4].id]
        assert ids(store, "jobs", Condition("run_at", "<=", 99 * SECOND)) == [jobs[0].id, jobs[1].id]
        assert ids(store, "jobs", Condition("finished_at", ">", 0)) == [], "live jobs have not finished"
        assert ids(store, "jobs", Condition("started_at", ">", 0)) == []
        assert ids(store, "jobs", Condition("id", ">=", jobs[3].id)) == [jobs[3].id, jobs[4].id]
        assert ids(store, "jobs", Condition("id", "=", jobs[3].id)) == [jobs[3].id]

    def test_a_boost_in_the_line_is_not_seen(self, store: Store) -> None:
        store.set_semaphore("s", 1)
        jobs = [new_job(priority=5, limits='{"hold":["s"]}') for _ in range(2)]
        store.push(jobs)
        claim(store, 2)
        [held] = [row for row in scanned(store, Scan()) if row.state == "running"]
        store.settle([Commit(held.id, held.token or "")])
        assert len(ids(store, "jobs", Condition("priority", "=", 5))) == 1

    def test_lanes_are_as_stored(self, store: Store) -> None:
        jobs = [new_job(lane=n) for n in range(3)]
        store.push(jobs)
        assert ids(store, "jobs", Condition("lane", ">=", 1), Condition("lane", "<=", 1)) == [jobs[1].id]

    @pytest.mark.parametrize(
        "condition",
        [Condition("payload", "=", "x"), Condition("queue", "like", "x"), Condition("queue", "in", "x")],  # type: ignore[arg-type]
    )
    def test_others_are_refused(self, store: Store, condition: Condition) -> None:
        with pytest.raises(InvalidInput, match="can't ask"):
            list(store.scan(Scan("jobs", (condition,))))
        with pytest.raises(InvalidInput, match="can't ask"):
            store.split(Scan("jobs", (condition,)), 2)


class TestSplit:
    @pytest.mark.parametrize("parts", [1, 3, 7, 50])
    def test_the_parts_give_each_job_once(self, store: Store, parts: int) -> None:
        jobs = [new_job(queue=f"q{n % 2}", tenant=f"t{n % 3}") for n in range(40)]
        store.push(jobs)
        wanted = Scan("jobs", (Condition("tenant", "in", ("t0", "t1")),))
        split = store.split(wanted, parts)
        assert len(split) <= parts
        given = Counter(row.id for part in split for row in scanned(store, part))
        assert given == Counter(row.id for row in scanned(store, wanted))

    def test_they_are_about_as_large(self, store: Store) -> None:
        store.push([new_job(queue=QUEUE) for _ in range(400)])
        assert {len(scanned(store, part)) for part in store.split(Scan(), 4)} == {100}

    def test_a_part_may_be_cut_again(self, store: Store) -> None:
        store.push([new_job() for _ in range(40)])
        [first, *_] = store.split(Scan(), 2)
        assert sum(len(scanned(store, part)) for part in store.split(first, 2)) == len(scanned(store, first))
