"""Pushes of jobs that a claim names: they are stored as running if they may run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import DuplicateKey
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, sizes_of, state, worker
from stanchion_conformance.manager.by_id import named


def tokens(pushed: list[Pushed]) -> list[str | None]:
    """Return the tokens under which jobs were stored as running."""
    return [one.token for one in pushed]


class TestPushAsRunning:
    def test_it_runs_for_its_worker(self, store: Store) -> None:
        job = new_job("1", priority=3, task="t", headers='{"a": 1}', tenant="x", max_attempts=3)
        wish = named(job, worker="w")
        (pushed,) = store.push([job], claim=wish)
        row = row_of(store, job.id)
        assert pushed == Pushed(job.id, row.run_at, row.enqueued_at, token=wish.token)
        assert (row.state, row.worker, row.token, row.attempts) == ("running", "w", wish.token, 1)
        assert (row.lease_until, row.payload, row.task, row.priority) == (None, "1", "t", 3)
        assert row.started_at is not None
        assert row.run_at <= row.enqueued_at <= row.started_at
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.reserved) == (1, 1)
        assert store.settle([Commit(row.lease, "2")]) == [JobState.DONE]
        assert row_of(store, job.id).result == "2"

    def test_only_those_that_are_named(self, store: Store) -> None:
        jobs = [new_job() for _ in range(4)]
        wish = named(jobs[3], jobs[1])
        assert tokens(store.push(jobs, claim=wish)) == [None, wish.token, None, wish.token]
        assert [row.id for row in claim(store, 9)] == [jobs[0].id, jobs[2].id]

    def test_each_for_its_own(self, store: Store) -> None:
        jobs = [new_job() for _ in range(3)]
        ids = ((jobs[0].id, "b"), (jobs[1].id, ""), (jobs[2].id, "a"))
        store.push(jobs, claim=Claim(QUEUE, 3, new_id(), lease=60.0, holder="h", ids=ids))
        rows = [row_of(store, job.id) for job in jobs]
        assert [(row.worker, row.lease_until is None) for row in rows] == [("b", True), ("h", False), ("a", True)]

    def test_no_other_job_of_the_queue(self, store: Store) -> None:
        first = new_job()
        store.push([first])
        wish = named(first, limit=9)
        assert tokens(store.push([new_job()], claim=wish)) == [None]
        assert sizes_of(store, QUEUE).ready == 2

    @pytest.mark.parametrize("fields", [{"delay": 60.0}, {"queue": "other"}], ids=str)
    def test_what_a_claim_would_not_get(self, store: Store, fields: dict[str, Any]) -> None:
        job = new_job(**fields)
        assert tokens(store.push([job], claim=named(job))) == [None]
        row = row_of(store, job.id)
        assert (row.state, row.attempts, row.token, row.worker) == ("queued", 0, None, None)

    def test_past_the_bound(self, store: Store) -> None:
        job, other = new_job(), new_job()
        assert tokens(store.push([job], claim=named(job, not_after=store.now() - SECOND))) == [None]
        assert state(store, job.id) is JobState.READY
        later = named(other, not_after=store.now() + 60 * SECOND)
        assert tokens(store.push([other], claim=later)) == [later.token]

    def test_no_more_than_the_limit(self, store: Store) -> None:
        jobs = [new_job() for _ in range(3)]
        wish = named(*jobs, limit=2)
        assert tokens(store.push(jobs, claim=wish)) == [wish.token, wish.token, None]

    @pytest.mark.parametrize(
        ("settings", "start"),
        [
            ({"paused": True}, 0),
            ({"max_running": 2}, 2),
            ({"max_running": 100}, 3),
            ({"max_rate": 1e6}, 3),
            ({"max_rate": 0.0001}, 1),
            ({"lanes": 4}, 3),
            ({"ordered": True, "max_running": 1}, 1),
        ],
        ids=str,
    )
    def test_within_the_limits_of_the_queue(self, store: Store, settings: dict[str, Any], start: int) -> None:
        store.configure(QUEUE, settings)
        jobs = [new_job(lane=number if "lanes" in settings else -1) for number in range(3)]
        wish = named(*jobs)
        assert tokens(store.push(jobs, claim=wish)) == [wish.token] * start + [None] * (3 - start)
        assert (sizes_of(store, QUEUE).running, sizes_of(store, QUEUE).ready) == (start, 3 - start)

    def test_a_semaphore(self, store: Store) -> None:
        store.set_semaphore("smtp", 2)
        jobs = [new_job(limits=json.dumps({"hold": ["smtp"]})) for _ in range(3)]
        wish = named(*jobs)
        assert tokens(store.push(jobs, claim=wish)) == [wish.token, wish.token, None]
        assert row_of(store, jobs[2].id).state == "waiting"
        assert store.settle([Commit(row_of(store, jobs[0].id).lease)]) == [JobState.DONE]
        assert [row.id for row in claim(store, 3)] == [jobs[2].id]

    def test_an_order_key(self, store: Store) -> None:
        jobs = [new_job(order_key="k") for _ in range(2)]
        wish = named(jobs[1], jobs[0])
        assert tokens(store.push(jobs, claim=wish)) == [wish.token, None]
        store.settle([Commit(row_of(store, jobs[0].id).lease)])
        assert [row.id for row in claim(store, 3)] == [jobs[1].id]

    def test_a_key(self, store: Store) -> None:
        first, second = new_job(key="k"), new_job(key="k")
        wish = named(first, second)
        pushed = store.push([first, second], claim=wish)
        assert [(one.id, one.duplicate, one.token) for one in pushed] == [
            (first.id, False, wish.token),
            (first.id, True, None),
        ]
        assert [one.duplicate for one in store.push([new_job(key="k")])] == [True]

    def test_none_of_a_refused_batch(self, store: Store) -> None:
        store.push([new_job(key="k")])
        job, refused = new_job(), new_job(key="k", on_duplicate="raise")
        with pytest.raises(DuplicateKey):
            store.push([job, refused], claim=named(job, refused))
        assert store.fetch([job.id]) == {}

    def test_a_worker_that_dies(self, store: Store, clock: StoreClock) -> None:
        job = new_job()
        store.beat([worker("w"), worker("other")])
        store.push([job], claim=named(job, worker="w"))
        clock.advance(31)
        store.beat([worker("other")])
        assert [row.id for row in store.recover()] == [job.id]

    def test_many(self, store: Store) -> None:
        jobs = [new_job(str(number)) for number in range(500)]
        ids = tuple((job.id, f"w{number % 5}") for number, job in enumerate(jobs))
        wish = Claim(QUEUE, 500, new_id(), ids=ids)
        assert tokens(store.push(jobs, claim=wish)) == [wish.token] * 500
        rows = store.fetch([job.id for job in jobs])
        assert [rows[job.id].worker for job in jobs] == [name for _, name in ids]

    def test_nothing(self, store: Store) -> None:
        assert store.push([], claim=named(new_id())) == []


class TestRepeatedPushAsRunning:
    def test_what_runs_already(self, store: Store) -> None:
        job = new_job()
        wish = named(job)
        before = store.push([job], claim=wish)
        row = row_of(store, job.id)
        for repeat in (False, True):
            assert store.push([job], claim=wish, repeat=repeat) == before
        assert row_of(store, job.id) == row
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.reserved) == (1, 1)

    def test_under_another_token(self, store: Store) -> None:
        job = new_job()
        store.push([job], claim=named(job))
        row = row_of(store, job.id)
        assert tokens(store.push([job], claim=named(job), repeat=True)) == [None]
        assert row_of(store, job.id) == row

    def test_a_known_job_is_left_as_it_is(self, store: Store) -> None:
        queued, tried, done = (new_job() for _ in range(3))
        store.push([queued, tried, done])
        (row,) = store.claim(named(tried)).rows
        store.settle([Rollback(row.lease, 0.0)])
        (row,) = store.claim(named(done)).rows
        store.settle([Commit(row.lease)])
        before = store.fetch([queued.id, tried.id, done.id])
        new = new_job()
        wish = named(queued, tried, done, new)
        for repeat in (False, True):
            pushed = store.push([queued, tried, done, new], claim=wish, repeat=repeat)
            assert tokens(pushed) == [None, None, None, wish.token]
            assert store.fetch([queued.id, tried.id, done.id]) == before
        assert counts_of(store, QUEUE).pushed == 4

    @pytest.mark.parametrize("fields", [{}, {"key": "k"}, {"order_key": "k"}, {"lane": 2}], ids=str)
    def test_repeats_store_nothing_twice(self, store: Store, fields: dict[str, Any]) -> None:
        live, done = new_job(**{**fields, **({"key": "l"} if "key" in fields else {})}), new_job(**fields)
        before = [*store.push([live]), *store.push([done])]
        if "order_key" in fields:
            (row,) = store.claim(named(live)).rows
            store.settle([Commit(row.lease)])
        (row,) = store.claim(named(done)).rows
        store.settle([Commit(row.lease)])
        rows = store.fetch([live.id, done.id])
        new: NewJob = new_job()
        after = store.push([live, done, new], repeat=True)
        assert after[:2] == before
        assert not after[2].duplicate
        assert store.fetch([live.id, done.id]) == rows
        assert counts_of(store, QUEUE).pushed == 3
        assert row_of(store, new.id).state == "queued"
