"""Claims by ids and other claims at the same time: each job goes to one, and none waits for another for ever."""

from __future__ import annotations

import random
import threading
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion_conformance.harness import QUEUE, all_at_once, claim, counts_of, new_job, sizes_of, slot_of
from stanchion_conformance.limits.semaphores import SMTP, limited

JOBS = 240


def some(ids: list[str], dice: random.Random, most: int = 12) -> Claim:
    """Return a claim of some of these jobs for two workers."""
    chosen = dice.sample(ids, min(len(ids), dice.randint(1, most)))
    return Claim(QUEUE, len(chosen), new_id(), ids=tuple((one, dice.choice("ab")) for one in chosen))


class Finished:
    """The jobs that the threads of a case have finished."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ids: list[str] = []

    def finish(self, store: Store, rows: list[JobRow]) -> None:
        """Commit reserved jobs."""
        assert store.settle([Commit(row.lease) for row in rows]) == [JobState.DONE] * len(rows)
        with self._lock:
            self.ids += [row.id for row in rows]


@pytest.fixture
def both(store: Store, other_store: Store) -> list[Store]:
    """Two stores of each of two processes."""
    return [store, other_store, store, other_store]


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lanes": {"lanes": 4},
    "limited": {"max_running": 50},
    "slots": {},
}


class TestRacesOfClaimsById:
    def fill(self, store: Store, kind: str) -> list[str]:
        """Store the jobs of a case; return their ids."""
        store.configure(QUEUE, KINDS[kind])
        store.set_semaphore(SMTP, 30)

        def job(number: int) -> NewJob:
            if kind == "slots":
                return limited(SMTP) if number % 2 else new_job(order_key=str(number % 9))
            return new_job(lane=number % 4 if kind == "lanes" else -1, priority=number % 3)

        jobs = [job(number) for number in range(JOBS)]
        store.push(jobs)
        return [job.id for job in jobs]

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_job_goes_to_one(self, store: Store, both: list[Store], kind: str) -> None:
        ids, done = self.fill(store, kind), Finished()

        def by_ids(mine: Store, seed: int) -> None:
            dice, left = random.Random(seed), list(ids)
            while left:
                done.finish(mine, mine.claim(some(left, dice)).rows)
                ended = mine.fetch(left)
                left = [one for one in left if ended[one].finished_at is None]

        def plainly(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            while sizes_of(mine, QUEUE).total:
                done.finish(mine, claim(mine, dice.randint(1, 9)))

        named = [lambda one=one, n=n: by_ids(one, n) for n, one in enumerate(both)]
        all_at_once([*named, *(lambda one=one, n=n: plainly(one, n) for n, one in enumerate(both[:2]))])
        assert sorted(done.ids) == sorted(ids)
        counts = counts_of(store, QUEUE)
        assert (counts.pushed, counts.committed) == (JOBS, JOBS)
        assert sizes_of(store, QUEUE).total == 0
        assert slot_of(store, SMTP) == ([], [])

    def test_the_same_ids_at_once(self, store: Store, both: list[Store]) -> None:
        ids = self.fill(store, "plain")
        got: list[tuple[str, str | None]] = []

        def work(mine: Store, name: str) -> None:
            for start in range(0, JOBS, 20):
                part = tuple((one, name) for one in ids[start : start + 20])
                rows = mine.claim(Claim(QUEUE, 20, new_id(), ids=part)).rows
                assert {row.worker for row in rows} <= {name}
                got.extend((row.id, row.worker) for row in rows)

        all_at_once([lambda one=one, n=n: work(one, f"w{n}") for n, one in enumerate(both)])  # type: ignore[misc]
        assert Counter(one for one, _ in got) == dict.fromkeys(ids, 1)
        rows = store.fetch(ids)
        assert {(row.id, row.worker, row.attempts) for row in rows.values()} == {(*one, 1) for one in got}

    def test_while_jobs_are_given_back_and_pushed_to_run(self, store: Store, both: list[Store]) -> None:
        ids, done = self.fill(store, "plain"), Finished()
        new = [new_job() for _ in range(60)]

        def push(mine: Store) -> None:
            left = iter(new)
            while part := list(islice(left, 6)):
                wish = Claim(QUEUE, 6, new_id(), ids=tuple((job.id, "p") for job in part))
                pushed = mine.push(part, claim=wish)
                started = mine.fetch([one.id for one in pushed if one.token is not None])
                assert {row.token for row in started.values()} <= {wish.token}
                done.finish(mine, list(started.values()))

        def work(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            everything = [*ids, *(job.id for job in new)]
            while len(done.ids) < len(everything):
                rows = mine.claim(some(everything, dice, 40)).rows
                back = [row for row in rows if row.attempts < 3 and dice.random() < 0.2]
                assert mine.settle([Rollback(row.lease, 0.0) for row in back]) == [JobState.READY] * len(back)
                done.finish(mine, [row for row in rows if row not in back])

        all_at_once([lambda: push(both[1]), *(lambda one=one, n=n: work(one, n) for n, one in enumerate(both[:3]))])
        assert sorted(done.ids) == sorted([*ids, *(job.id for job in new)])

    def test_the_same_push_at_once(self, store: Store, both: list[Store]) -> None:
        jobs = [new_job() for _ in range(60)]
        done = Finished()

        def push(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            for start in range(0, len(jobs), 10):
                part = jobs[start : start + 10]
                wish = Claim(QUEUE, 10, new_id(), ids=tuple((job.id, "w") for job in part))
                pushed = mine.push(dice.sample(part, len(part)), claim=wish, repeat=True)
                started = mine.fetch([one.id for one in pushed if one.token is not None])
                assert {row.token for row in started.values()} <= {wish.token}
                done.finish(mine, list(started.values()))

        all_at_once([lambda one=one, n=n: push(one, n) for n, one in enumerate(both)])  # type: ignore[misc]
        while rows := claim(store, 60):
            done.finish(store, rows)
        assert sorted(done.ids) == sorted(job.id for job in jobs)
        assert counts_of(store, QUEUE).pushed == len(jobs)
