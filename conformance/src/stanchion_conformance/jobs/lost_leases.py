"""Lost leases: counted for jobs that had begun; after two a job is handed out alone, after five it is dead."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stanchion import Queue, Retry, Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import BEGUN, Claim
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.rules.leases.lost_leases import start_of
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    about,
    claim,
    counts_of,
    due_of,
    new_job,
    row_of,
    seconds_until,
    slot_of,
    state,
    worker,
)

DEFAULT_DELAYS = (6, 21, 86)
"""Seconds of the default retry policy after the second, third and fourth lost lease."""


def _told(store: Store, name: str, began: Collection[JobRow] = ()) -> None:
    """Let a worker send a heartbeat with its running jobs."""
    starts = tuple(start_of(row.id, row.token or "") for row in began)
    store.beat([replace(worker(name), began=starts)])


def _killed(store: Store, clock: StoreClock) -> list[JobRow]:
    """Let the workers miss their heartbeats, while another lives, and recover their jobs."""
    clock.advance(31)
    store.beat([worker("alive")])
    return store.recover()


class TestCharges:
    def test_that_never_began_gives_the_attempt_back(self, store: Store, clock: StoreClock) -> None:
        _told(store, "w")
        store.push([new_job(max_attempts=1) for _ in range(3)])
        began, *waited = claim(store, 3, worker="w")
        _told(store, "w", [began])
        assert len(_killed(store, clock)) == 3
        assert (state(store, began.id), row_of(store, began.id).attempts) == (JobState.DEAD, 1)
        for row in waited:
            assert (state(store, row.id), row_of(store, row.id).attempts) == (JobState.READY, 0)
        assert [row.attempts for row in claim(store, 3)] == [1, 1]
        assert counts_of(store, QUEUE).expired == 2

    def test_of_another_attempt_of_the_job_is_not_taken_for_this_one(self, store: Store, clock: StoreClock) -> None:
        _told(store, "w")
        store.push([new_job()])
        (first,) = claim(store, worker="w")
        _told(store, "w", [first])
        store.settle([Rollback(first.lease, 0.0, "failed")])
        claim(store, worker="w")
        (back,) = _killed(store, clock)
        assert (back.attempts, back.failures) == (1, 1)

    def test_of_a_claim_whose_jobs_begin_at_once_counts(self, store: Store, clock: StoreClock) -> None:
        _told(store, "w")
        store.push([new_job(), new_job()])
        for delivery in (BEGUN, None):
            claim(store, worker="w", delivery=delivery)
        assert sorted(row.attempts for row in _killed(store, clock)) == [0, 1]

    def test_of_a_worker_that_does_not_say_what_began_counts(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job(), new_job()])
        claim(store, 2, worker="w")
        assert [row.attempts for row in _killed(store, clock)] == [1, 1]

    def test_of_a_reservation_without_a_worker_counts(self, q: Queue, clock: StoreClock) -> None:
        q.push_many([1, 2])
        q.reserve(2, lease=10)
        clock.advance(11)
        assert [job.attempt for job in q.reserve(2)] == [2, 2]

    def test_from_the_second_on_make_the_job_wait_longer_each_time(self, store: Store, clock: StoreClock) -> None:
        (pushed,) = store.push([new_job()])
        claim(store, lease=10.0)
        clock.advance(11)
        (back,) = store.recover()
        assert back.run_at == pushed.run_at
        for delay in DEFAULT_DELAYS:
            (row,) = claim(store, lease=10.0)
            clock.advance(11)
            assert claim(store) == []
            assert seconds_until(store, row_of(store, row.id).run_at) == about(delay)
            assert state(store, row.id) is JobState.SCHEDULED
            clock.advance(delay)

    def test_are_five_at_most(self, store: Store, clock: StoreClock) -> None:
        job = new_job()
        store.push([job])
        for _ in range(5):
            assert len(claim(store, lease=10.0)) == 1
            clock.advance(11)
            store.recover()
            clock.advance(1000)
        row = row_of(store, job.id)
        assert (row.state, row.attempts, row.failures) == (JobState.DEAD, 5, 0)
        assert [entry["error"].split(":")[0] for entry in json.loads(row.errors or "")] == ["LeaseLost"] * 5

    @pytest.mark.parametrize(
        "end",
        [
            lambda store, row: store.settle([Rollback(row.lease, 0.0, "failed")]),
            lambda store, row: store.settle([Rollback(row.lease, 0.001, refund=True)]),
        ],
        ids=["a failure", "a snooze"],
    )
    def test_before_another_end_of_an_attempt_no_longer_count(
        self, store: Store, clock: StoreClock, end: Callable[[Store, JobRow], Any]
    ) -> None:
        store.push([new_job()])
        for _ in range(2):
            claim(store, lease=10.0)
            clock.advance(11)
            store.recover()
        clock.advance(1000)
        (row,) = claim(store)
        store.push([new_job()])
        end(store, row)
        clock.advance(1)
        assert len(claim(store, 2)) == 2

    def test_after_a_retry_begin_from_the_start(self, store: Store, clock: StoreClock) -> None:
        job = new_job(max_attempts=2)
        store.push([job, new_job()])
        for _ in range(2):
            claim(store, lease=10.0)
            clock.advance(1000)
            store.recover()
        assert state(store, job.id) is JobState.DEAD
        store.retry([job.id])
        assert len(claim(store, 2)) == 2


class TestAlone:
    """A job that lost its lease twice is handed out alone."""

    def lost_twice(self, store: Store, clock: StoreClock, jobs: int = 1) -> list[str]:
        """Store jobs that have lost two leases, and are due."""
        pushed = store.push([new_job() for _ in range(jobs)])
        for _ in range(2):
            for row in [row for _ in range(jobs) for row in claim(store, lease=10.0)]:
                assert row.lease_until is not None
            clock.advance(1000)
            store.recover()
        clock.advance(1000)
        return [one.id for one in pushed]

    def test_first_of_its_queue(self, store: Store, clock: StoreClock) -> None:
        (lone,) = self.lost_twice(store, clock)
        others = [new_job() for _ in range(3)]
        store.push(others)
        assert [row.id for row in claim(store, 10)] == [lone]
        assert [row.id for row in claim(store, 10)] == [job.id for job in others]
        assert [row.attempts for row in store.fetch([job.id for job in others]).values()] == [1, 1, 1]

    def test_behind_others(self, store: Store, clock: StoreClock) -> None:
        (lone,) = self.lost_twice(store, clock)
        before, after = new_job(priority=1), new_job()
        store.push([before, after])
        assert [[row.id for row in claim(store, 10)] for _ in range(3)] == [[before.id], [lone], [after.id]]

    def test_several_one_by_one(self, store: Store, clock: StoreClock) -> None:
        lone = self.lost_twice(store, clock, 3)
        assert sorted(row.id for _ in range(3) for row in claim(store, 10)) == sorted(lone)
        assert claim(store) == []

    def test_for_a_worker_and_again_after_a_lost_answer(self, store: Store, clock: StoreClock) -> None:
        (lone,) = self.lost_twice(store, clock)
        store.push([new_job()])
        store.beat([worker("w")])
        (row,) = claim(store, 10, worker="w", token="token-of-a-lost-answer")
        again = claim(store, 0, worker="w", token="token-of-a-lost-answer", repeat=True)
        assert (row.id, [one.id for one in again]) == (lone, [lone])

    def test_from_lanes_and_with_slots(self, store: Store, clock: StoreClock) -> None:
        store.set_semaphore("few", 3)
        jobs = [new_job(lane=lane, limits='{"hold":["few"]}', order_key=f"k{lane}") for lane in (1, 2, 3)]
        store.push(jobs)
        for _ in range(2):
            assert len([row for _ in jobs for row in claim(store, lease=10.0)]) == 3
            clock.advance(1000)
            store.recover()
        clock.advance(1000)
        assert [len(claim(store, 10)) for _ in range(4)] == [1, 1, 1, 0]
        assert len(slot_of(store, "few")[0]) == 3

    @pytest.mark.parametrize("max_running", [None, 100])
    def test_batches_for_readers_elsewhere_are_whole(
        self, store: Store, clock: StoreClock, max_running: int | None
    ) -> None:
        store.configure(QUEUE, {"max_running": max_running})
        self.lost_twice(store, clock, 2)
        store.push([new_job()])
        assert store.claim(Claim(QUEUE, 10, new_id(), lease=60.0, rows=False)).reserved == 3

    def test_also_after_it_was_put_off(self, store: Store, clock: StoreClock) -> None:
        (lone,) = self.lost_twice(store, clock)
        (row,) = claim(store)
        store.settle([Rollback(row.lease, 0.0, "no task", refund=True)])
        store.push([new_job()])
        assert [row.id for row in claim(store, 10)] == [lone]

    def test_until_it_is_resumed(self, store: Store, clock: StoreClock) -> None:
        """A retry of a job that waits for its next attempt clears the charge, which no attempt has answered."""
        (lone,) = self.lost_twice(store, clock)
        (row,) = claim(store)
        clock.advance(1000)
        store.settle([Rollback(row.lease, 60.0, "no task", refund=True)])
        assert row_of(store, lone).lost_leases == 2
        store.retry([lone])
        found = row_of(store, lone)
        assert (found.lost_leases, found.lost_in_all, len(json.loads(found.errors or ""))) == (0, 0, 3)
        store.push([new_job()])
        assert len(claim(store, 10)) == 2

    def test_so_that_nobody_beside_the_culprit_dies(self, store: Store, clock: StoreClock) -> None:
        """A job kills its worker before any start is recorded; the other jobs of the worker have one attempt each."""
        jobs = [new_job(max_attempts=1) for _ in range(4)]
        culprit = jobs[1].id
        store.push(jobs)
        deaths, done = 0, list[str]()
        while deaths < 10 and (due := due_of(store, QUEUE)) is not None:
            clock.advance(max(0.0, seconds_until(store, due)) + 0.001)
            name = f"w{deaths}"
            _told(store, name)
            rows = claim(store, 10, worker=name)
            if len(rows) == 1:
                _told(store, name, rows)
            if culprit in [row.id for row in rows]:
                deaths += 1
                _killed(store, clock)
                continue
            store.settle([Commit(row.lease) for row in rows])
            done += [row.id for row in rows]
        assert sorted(done) == sorted(job.id for job in jobs if job.id != culprit)
        assert (state(store, culprit), deaths) == (JobState.DEAD, 3)

    def test_one_whose_start_is_never_said_is_dead_in_the_end(self, store: Store, clock: StoreClock) -> None:
        job = new_job(max_attempts=1)
        store.push([job])
        for number in range(25):
            assert state(store, job.id) in (JobState.READY, JobState.SCHEDULED)
            clock.advance(1000)
            _told(store, f"w{number}")
            assert len(claim(store, worker=f"w{number}")) == 1
            _killed(store, clock)
        assert state(store, job.id) is JobState.DEAD


class TestDelayOfTheTask:
    def test_is_that_of_its_retry_policy(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        @app.task(queue=QUEUE, retry=Retry.constant(1000, jitter=0))
        def deadly() -> None: ...

        handle = deadly.enqueue()
        for _ in range(2):
            app.queue(QUEUE).reserve(lease=timedelta(seconds=10))
            clock.advance(11)
            store.recover()
        assert seconds_until(store, row_of(store, handle.id).run_at) == about(1000)
