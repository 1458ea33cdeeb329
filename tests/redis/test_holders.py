"""Who holds running jobs is read from an index: the jobs of those that live are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Commit, Extend, Rollback
from stanchion.stores.records.workers import HOLDER, QueueTimes, WorkerRow
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import sizes_of
from tests.redis.conftest import QUEUE, Open, new_jobs
from tests.redis.keys import broken_rules
from tests.redis.reads import reads_of

MANY = 5000
FEW = 1000
"""More than what is to be read here, far less than all that runs."""
LATER = 60.0
"""Seconds after which a worker that beats no more is dead."""


@pytest.fixture
def store(redis_url: str, opened: Open) -> RedisStore:
    return opened(redis_url)


def beat(store: RedisStore, *workers: str) -> None:
    store.beat([WorkerRow(worker, "host", 1, (QUEUE,), 8, 10.0, "running", 0, 0) for worker in workers])


def hold(store: RedisStore, worker: str | None, count: int = 1, queue: str = QUEUE, lease: float = 30.0) -> list[str]:
    """Give the worker so many running jobs; None: no worker, for as long as the lease."""
    store.push([job._replace(queue=queue) for job in new_jobs(count)])
    rows = store.claim(Claim(queue, count, new_id(), worker, lease)).rows
    assert len(rows) == count
    return [row.id for row in rows]


def recovered(store: RedisStore, limit: int = 500) -> list[str]:
    """Recover once, and make sure that little was read for it."""
    with reads_of(store) as reads:
        rows = store.recover(limit)
    assert reads.count() < FEW
    return sorted(row.id for row in rows)


def counted(store: RedisStore) -> dict[str, int]:
    return {worker.id: worker.running for worker in store.workers()}


@pytest.fixture
def busy(store: RedisStore) -> RedisStore:
    """A store with a live worker that holds many jobs."""
    beat(store, "live")
    store.recover()  # the first one of a process looks for leases from before the clock was set back
    hold(store, "live", MANY)
    return store


def test_times_leave_with_their_worker(store: RedisStore) -> None:
    row = WorkerRow("w", "host", 1, (QUEUE,), 8, 10.0, times=(QueueTimes(QUEUE, "eventual", (1,), ()),))
    store.beat([row, replace(row, id="other")])
    store.leave("w")
    assert [name.decode() for name in store.server.command("HKEYS", store.server.keys.own("times"))] == ["other"]


class TestRecovery:
    def test_it_reads_what_is_lost(self, busy: RedisStore) -> None:
        beat(busy, "dead", "idle")
        lost = [
            *hold(busy, "dead", 3),
            *hold(busy, "dead", 1, "other"),
            *hold(busy, "unknown", 2),
            *hold(busy, None, 2),
        ]
        hold(busy, None, lease=1000.0)
        busy.clock_offset = LATER
        beat(busy, "live")
        assert recovered(busy) == sorted(lost)
        assert recovered(busy) == []
        assert sizes_of(busy, QUEUE).running == MANY + 1
        assert broken_rules(busy, QUEUE) == broken_rules(busy, "other") == []

    def test_leases_under_names_are_judged_by_their_ends(self, busy: RedisStore) -> None:
        beat(busy, "dead")
        store, lost = busy, list[str]()
        for name in ("dead", "live", "a", "a b"):
            store.push(new_jobs(MANY // 4))
            rows = store.claim(Claim(QUEUE, MANY // 4, new_id(), lease=1000.0, holder=name)).rows
            lost += [hold(store, None, 2)[0], hold(store, "dead")[0]]
        states = store.settle([Extend(row.lease, 2000.0) for row in rows[:2]])
        states += store.settle([Commit(rows[2].lease), Rollback(rows[3].lease, 1000.0)])
        assert states == ["running", "running", "done", "scheduled"]
        store.clock_offset = LATER
        beat(store, "live")
        assert set(lost) < set(recovered(store))
        assert recovered(store) == []
        assert sizes_of(store, QUEUE).running == 2 * MANY - 2
        assert counted(store)["live"] == MANY
        named = {row.id: row.running for row in store.workers(holders=True) if row.state == HOLDER}
        assert named == {"dead": MANY // 4, "live": MANY // 4, "a": MANY // 4, "a b": MANY // 4 - 2}
        assert broken_rules(store, QUEUE) == []

    def test_nothing_is_lost(self, busy: RedisStore) -> None:
        assert recovered(busy) == []

    def test_it_reads_no_more_than_it_may_give_back(self, store: RedisStore) -> None:
        beat(store, "dead")
        lost = [*hold(store, "dead", 500), *hold(store, "dead", 500, "other"), *hold(store, None, 500)]
        store.clock_offset = LATER
        some = {job for _ in range(3) for job in recovered(store, 4)}
        assert len(some) == 12
        while part := store.recover(500):
            assert len(part) <= 500
            some |= {row.id for row in part}
        assert some == set(lost)

    def test_jobs_of_the_unknown_hide_no_job_of_the_dead(self, store: RedisStore) -> None:
        beat(store, "dead")
        lost = hold(store, "dead", queue="zeta")
        store.clock_offset = LATER
        beat(store, "live")
        hold(store, "another unknown", 5)  # too young to be lost
        assert recovered(store, 2) == lost

    def test_those_of_the_unknown_wait_for_somebody_who_lives(self, store: RedisStore) -> None:
        lost = hold(store, "unknown")
        store.clock_offset = LATER
        assert recovered(store) == []
        beat(store, "live")
        assert recovered(store) == lost

    def test_one_between_others(self, store: RedisStore) -> None:
        names = ["a", "a b", "a-b", "a1", "ab", "b"]
        jobs = {name: hold(store, name, 2) for name in names}
        for unknown in names:
            beat(store, *names)
            store.leave(unknown)
            store.clock_offset += LATER
            beat(store, *(name for name in names if name != unknown))
            assert recovered(store) == sorted(jobs[unknown])


class TestCounts:
    def test_each_worker_has_its_own(self, busy: RedisStore) -> None:
        hold(busy, "live", 7, "other")
        hold(busy, "unknown", 2)
        hold(busy, None, 4)
        beat(busy, "few", "none")
        hold(busy, "few", 3)
        with reads_of(busy) as reads:
            assert counted(busy) == {"live": MANY + 7, "few": 3, "none": 0}
        assert reads.count() < FEW

    def test_names_that_begin_alike(self, store: RedisStore) -> None:
        names = ["w", "w 1", "w-1", "w1", "w11", "W", "wé"]
        for number, name in enumerate(names):
            beat(store, name)
            hold(store, name, number + 1)
        assert counted(store) == {name: number + 1 for number, name in enumerate(names)}

    def test_what_ends_counts_no_more(self, store: RedisStore) -> None:
        beat(store, "w")
        store.push(new_jobs(6))
        ids = [row.id for row in store.claim(Claim(QUEUE, 6, "t", "w")).rows]
        store.settle(
            [
                Commit(Lease(QUEUE, ids[0], "t")),
                Commit(Lease(QUEUE, ids[1], "t")),
                Rollback(Lease(QUEUE, ids[2], "t"), 0.0),
            ]
        )
        assert counted(store) == {"w": 3}
        store.cancel([ids[3]])
        assert counted(store) == {"w": 3}
        assert broken_rules(store, QUEUE) == []
        store.drop_queue(QUEUE)
        assert counted(store) == {"w": 0}


def test_the_dead_are_forgotten_once_they_hold_nothing(busy: RedisStore) -> None:
    beat(busy, "holds", "idle")
    hold(busy, "holds")
    busy.clock_offset = LATER
    beat(busy, "live")
    with reads_of(busy) as reads:
        busy._workers.forget_dead(busy.now())
    assert counted(busy) == {"live": MANY, "holds": 1}
    assert reads.count() < FEW


def test_a_repeated_claim_reads_what_its_worker_holds(busy: RedisStore) -> None:
    def claimed(worker: str | None) -> Sequence[str]:
        wish = Claim(QUEUE, 3, f"of {worker}", worker, 1000.0)
        busy.push(new_jobs(3))
        ids = [row.id for row in busy.claim(wish).rows]
        with reads_of(busy) as reads:
            assert [row.id for row in busy.claim(wish._replace(repeat=True)).rows] == ids
        assert reads.count() < FEW
        return ids

    assert len({*claimed("quick"), *claimed(None)}) == 6
    assert {row.state for row in busy.fetch([*claimed("liv")]).values()} == {JobState.RUNNING}
