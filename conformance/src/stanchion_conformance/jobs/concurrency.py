"""Concurrent callers: each job goes to one, each token to one, and every limit holds."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    QUEUE,
    NewStore,
    StoreClock,
    all_at_once,
    claim,
    counts_of,
    new_job,
    row_of,
    sizes_of,
    state,
)

THREADS = 8
JOBS = 2000


@pytest.fixture
def stores(store: Store, other_store: Store) -> list[Store]:
    """One store per thread, of two processes."""
    return [store, other_store] * (THREADS // 2)


def fill(store: Store, count: int) -> list[str]:
    """Store jobs and return their ids."""
    jobs = [new_job(str(number), priority=number % 3) for number in range(count)]
    for start in range(0, count, 500):
        store.push(jobs[start : start + 500])
    return [job.id for job in jobs]


class TestEveryJobGoesToOne:
    def test_claimed(self, store: Store, stores: list[Store]) -> None:
        ids = fill(store, JOBS)
        got: list[list[str]] = []

        def work(mine: Store, seed: int) -> None:
            dice, taken = random.Random(seed), []
            while rows := claim(mine, dice.randint(1, 30)):
                assert mine.settle([Commit(row.lease) for row in rows]) == ["done"] * len(rows)
                taken += [row.id for row in rows]
            got.append(taken)

        all_at_once([lambda one=one, n=n: work(one, n) for n, one in enumerate(stores)])  # type: ignore[misc]
        self.check(got, ids)
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.reserved, counts.committed) == (JOBS, JOBS, JOBS)
        assert sizes_of(store, QUEUE).total == 0

    def test_popped(self, store: Store, stores: list[Store]) -> None:
        ids = fill(store, JOBS)
        got: list[list[str]] = []

        def work(mine: Store) -> None:
            taken: list[str] = []
            while rows := pop(mine, Claim(QUEUE, 25, new_id())).rows:
                taken += [row.id for row in rows]
            got.append(taken)

        all_at_once([lambda one=one: work(one) for one in stores])  # type: ignore[misc]
        self.check(got, ids)
        assert counts_of(store, QUEUE).popped == JOBS

    def test_while_others_are_pushed_and_given_back(self, stores: list[Store]) -> None:
        done: list[str] = []
        pushed: list[str] = []
        lock = threading.Lock()

        def push(mine: Store) -> None:
            for _ in range(10):
                ids = fill(mine, 20)
                with lock:
                    pushed.extend(ids)

        def work(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            while len(done) < 400:
                for row in claim(mine, 5):
                    if row.attempts < 3 and dice.random() < 0.3:
                        assert mine.settle([Rollback(row.lease, 0.0)]) == [JobState.READY]
                    else:
                        assert mine.settle([Commit(row.lease)]) == [JobState.DONE]
                        with lock:
                            done.append(row.id)

        workers = [lambda one=one, n=n: work(one, n) for n, one in enumerate(stores[:4])]
        all_at_once([*workers, *(lambda one=one: push(one) for one in stores[:2])])
        assert sorted(done) == sorted(pushed)

    def check(self, got: list[list[str]], ids: list[str]) -> None:
        """Each job goes to one thread, and not all to the same."""
        everything = [job_id for taken in got for job_id in taken]
        assert len(everything) == len(ids)
        assert set(everything) == set(ids)


class TestOneWins:
    def test_of_many_outcomes_under_one_token(self, store: Store, stores: list[Store]) -> None:
        for _ in range(10):
            store.push([new_job()])
            (row,) = claim(store)
            answers: list[JobState | None] = []

            def end(mine: Store, n: int, row: JobRow = row, answers: list[JobState | None] = answers) -> None:
                outcome = Rollback(row.lease, 600.0 + n)
                answers.extend(mine.settle([outcome]))

            all_at_once([lambda one=one, n=n: end(one, n) for n, one in enumerate(stores)])  # type: ignore[misc]
            assert [answer for answer in answers if answer is not None] == [JobState.SCHEDULED]

    def test_of_many_jobs_with_one_key(self, store: Store, stores: list[Store]) -> None:
        for attempt in range(10):
            key = f"k{attempt}"
            answers: list[Any] = []

            def push(mine: Store, key: str = key, answers: list[Any] = answers) -> None:
                answers.extend(mine.push([new_job(key=key)]))

            all_at_once([lambda one=one: push(one) for one in stores])  # type: ignore[misc]
            assert len({answer.id for answer in answers}) == 1
            assert sorted(answer.duplicate for answer in answers) == [False] + [True] * (THREADS - 1)
        assert sizes_of(store, QUEUE).total == 10

    def test_of_many_pushes_of_one_batch(self, store: Store, stores: list[Store]) -> None:
        jobs = [new_job(key=f"k{n}" if n % 2 else None) for n in range(50)]
        orders = [random.Random(n).sample(jobs, len(jobs)) for n in range(THREADS)]
        all_at_once(
            [
                lambda one=one, order=order: one.push(order)  # type: ignore[misc]
                for one, order in zip(stores, orders, strict=True)
            ]
        )
        assert sizes_of(store, QUEUE).total == 50
        assert counts_of(store, QUEUE).pushed == 50

    def test_of_many_recoveries(self, store: Store, stores: list[Store], clock: StoreClock) -> None:
        ids = fill(store, 40)
        assert len(claim(store, 40, lease=10.0)) == 40
        clock.advance(11)
        back: list[str] = []
        all_at_once(
            [
                lambda one=one: back.extend(row.id for row in one.recover())  # type: ignore[misc]
                for one in stores
            ]
        )
        while rows := store.recover():
            back += [row.id for row in rows]
        assert sorted(back) == sorted(ids)
        assert {row_of(store, job_id).attempts for job_id in ids} == {1}
        assert counts_of(store, QUEUE).expired == 40

    def test_of_a_late_worker_and_the_recovery(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        for number in range(1, 11):
            store.push([new_job()])
            (row,) = claim(store, lease=10.0)
            clock.advance(11)
            answers: list[JobState | None] = []

            def commit(row: JobRow = row, answers: list[JobState | None] = answers) -> None:
                answers.extend(store.settle([Commit(row.lease)]))

            all_at_once([commit, other_store.recover])
            assert answers == [None]
            other_store.recover()  # the first may have passed over the row, as the commit was looking at it
            assert state(store, row.id) is JobState.READY
            assert counts_of(store, QUEUE).expired == number
            store.cancel([row.id])

    def test_of_cancel_and_claim(self, store: Store, other_store: Store) -> None:
        for _ in range(20):
            job = new_job()
            store.push([job])
            got: list[Any] = []
            all_at_once(
                [
                    lambda got=got: got.append(claim(store)),  # type: ignore[misc]
                    lambda got=got, job=job: got.append(other_store.cancel([job.id])),  # type: ignore[misc]
                ]
            )
            rows = next(answer for answer in got if answer == [] or isinstance(answer[0], JobRow))
            (cancelled,) = next(answer for answer in got if answer is not rows)
            if rows:
                assert cancelled is JobState.RUNNING
                assert row_of(store, job.id).cancel_requested
                assert store.settle([Rollback(rows[0].lease, 0.0)]) == [JobState.CANCELLED]
            assert state(store, job.id) is JobState.CANCELLED


class TestLimits:
    def test_max_running_is_never_exceeded(self, store: Store, stores: list[Store]) -> None:
        store.configure(QUEUE, {"max_running": 3})
        fill(store, 150)
        running, most, done = 0, 0, 0
        lock = threading.Lock()

        def work(mine: Store) -> None:
            nonlocal running, most, done
            while done < 150:
                for row in claim(mine, 2):
                    with lock:
                        running += 1
                        most = max(most, running)
                    with lock:
                        running -= 1
                    assert mine.settle([Commit(row.lease)]) == [JobState.DONE]
                    with lock:
                        done += 1

        all_at_once([lambda one=one: work(one) for one in stores])  # type: ignore[misc]
        assert most <= 3
        assert sizes_of(store, QUEUE).total == 0

    def test_max_rate_holds_for_all_together(self, store: Store, stores: list[Store]) -> None:
        store.configure(QUEUE, {"max_rate": 0.01})
        fill(store, 50)
        got: list[JobRow] = []
        all_at_once([lambda one=one: got.extend(claim(one, 10)) for one in stores])  # type: ignore[misc]
        assert len(got) == 1

    def test_settings_of_many_processes_add_up(self, store: Store, stores: list[Store]) -> None:
        changes: list[dict[str, Any]] = [
            {"max_running": 5},
            {"lease": 7.0},
            {"dead_letter": "letters"},
            {"paused": True},
        ]
        all_at_once(
            [
                lambda one=one, change=change: one.configure(QUEUE, change)  # type: ignore[misc]
                for one, change in zip(stores, changes * 2, strict=True)
            ]
        )
        (settings,) = store.queues()
        assert (settings.max_running, settings.lease) == (5, 7.0)
        assert (settings.dead_letter, settings.paused) == ("letters", True)


class TestThreads:
    def test_share_one_app(self, new_store: NewStore) -> None:
        q = Stanchion(store=new_store()).queue(QUEUE)
        got: list[Any] = []

        def work(name: int) -> None:
            for number in range(20):
                q.push([name, number])
            while jobs := q.reserve(5):
                for job in jobs:
                    with job:
                        got.append(job.payload)

        all_at_once([lambda n=n: work(n) for n in range(THREADS)])  # type: ignore[misc]
        while jobs := q.reserve(50):
            for job in jobs:
                job.commit()
                got.append(job.payload)
        assert sorted(got) == [[name, number] for name in range(THREADS) for number in range(20)]
