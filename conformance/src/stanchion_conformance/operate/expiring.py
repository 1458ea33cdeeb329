"""Queues that expire: removed after a time without use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from stanchion import Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.records.queues import Counts, QueueSettings
from stanchion.stores.rules import upkeep
from stanchion.stores.rules.upkeep import Purge
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, find_jobs, new_job, sizes_of, slot_of

DAY = 86_400.0
MINUTE = 60.0


@pytest.fixture
def passing(store: Store, clock: StoreClock) -> Callable[[float], None]:
    """Lets time pass; workers maintain the store before and after it."""

    def passing(seconds: float) -> None:
        store.maintain()
        clock.advance(seconds)
        store.maintain()

    return passing


Passing = Callable[[float], None]


def finish(store: Store, count: int = 1) -> None:
    """Push, reserve and commit a job."""
    store.push([new_job() for _ in range(count)])
    rows = claim(store, count)
    assert store.settle([Commit(row.lease) for row in rows]) == count * [JobState.DONE]


class TestQueuesThatExpire:
    def test_the_setting(self, q: Queue, other_q: Queue) -> None:
        q.configure(expires=timedelta(days=1), expires_with_jobs=True)
        assert other_q.settings == QueueSettings(QUEUE, expires=DAY, expires_with_jobs=True)
        assert q.configure(expires=None).expires is None

    def test_an_unused_one_is_removed_with_all_it_holds(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY, "lanes": 4, "uses_lanes": True})
        finish(store, 3)
        passing(MINUTE)
        passing(DAY - MINUTE - 1)
        assert len(find_jobs(store, queue=QUEUE)) == 3
        passing(MINUTE + 1)
        assert store.queues() == []
        assert find_jobs(store, queue=QUEUE) == []
        assert counts_of(store, QUEUE) == Counts()
        assert store.configure(QUEUE, {}) == QueueSettings(QUEUE)

    def test_with_more_history_than_a_purge_takes(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY})
        finish(store, 520)
        passing(MINUTE)
        passing(DAY)
        assert store.queues() == []
        assert find_jobs(store, queue=QUEUE) == []

    def test_one_that_was_never_used_is_removed_too(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY})
        passing(DAY - 1)
        assert [settings.name for settings in store.queues()] == [QUEUE]
        passing(2)
        assert store.queues() == []

    def test_a_push_makes_it_again(self, store: Store, other_store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY})
        store.cancel([store.push([new_job(order_key="k")])[0].id])
        passing(MINUTE)
        passing(DAY)
        assert store.queues() == []
        store.push([new_job(order_key="k")])
        assert [(settings.name, settings.shape) for settings in other_store.queues()] == [(QUEUE, "slots")]

    @pytest.mark.parametrize("use", ["push", "pop", "rollback", "cancel"])
    def test_every_use_counts(self, q: Queue, passing: Passing, clock: StoreClock, use: str) -> None:
        store = context_of(q).store
        q.configure(expires=DAY, expires_with_jobs=True)
        job = q.push(1)
        passing(MINUTE)
        clock.advance(DAY)  # no maintenance since
        match use:
            case "push":
                q.push(2)
            case "pop":
                q.pop()
            case "rollback":
                (row,) = claim(store)
                store.settle([Rollback(row.lease, 0.0)])
            case _:
                q.cancel(job.id)
        passing(DAY - 1)
        assert [settings.name for settings in store.queues()] == [QUEUE]
        passing(MINUTE)
        assert store.queues() == []

    def test_others_stay(self, store: Store, passing: Passing) -> None:
        store.configure("kept", {"expires": DAY})
        store.configure("kept", {"expires": None})
        store.configure(QUEUE, {})
        store.configure("gone", {"expires": DAY})
        passing(MINUTE)
        passing(1000 * DAY)
        assert [settings.name for settings in store.queues()] == ["kept", QUEUE]

    def test_to_set_it_again_begins_again(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY})
        passing(MINUTE)
        store.configure(QUEUE, {"expires": None})
        passing(10 * DAY)
        store.configure(QUEUE, {"expires": DAY})
        passing(DAY - 1)
        assert [settings.name for settings in store.queues()] == [QUEUE]

    def test_several_processes_look_after_it(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"expires": DAY})
        for _ in range(5):
            finish(store)
            other_store.maintain()
            clock.advance(DAY / 2)
            store.maintain()
        other_store.maintain()
        clock.advance(DAY / 2 + MINUTE)
        other_store.maintain()
        assert store.queues() == []

    def test_it_is_used_again_by_one_who_knew_it(self, store: Store, other_store: Store, passing: Passing) -> None:
        other_store.configure(QUEUE, {"expires": DAY})
        finish(other_store)
        passing(MINUTE)
        passing(DAY)
        assert store.queues() == []
        finish(other_store)
        store.maintain()
        assert [settings.name for settings in store.queues()] == [QUEUE]
        assert counts_of(other_store, QUEUE).committed == 1


class TestQueuesThatExpireWithJobs:
    @pytest.mark.parametrize("state", ["scheduled", "waiting", "running"])
    def test_a_live_job_keeps_it(self, store: Store, passing: Passing, state: str) -> None:
        store.configure(QUEUE, {"expires": DAY})
        store.set_semaphore("closed", 0)
        limits = '{"hold":["closed"]}' if state == "waiting" else None
        store.push([job := new_job(delay=100 * DAY if state == "scheduled" else None, limits=limits)])
        assert len(claim(store)) == (state == "running")
        passing(MINUTE)
        passing(2 * DAY)
        assert store.fetch([job.id]).keys() == {job.id}
        assert store.queues() == [QueueSettings(QUEUE, expires=DAY)]

    def test_they_go_with_it_where_it_says_so(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY, "expires_with_jobs": True})
        store.set_semaphore("one", 1)
        held = '{"hold":["one"]}'
        jobs = [
            *(new_job(order_key="k") for _ in range(2)),
            *(new_job(delay=100 * DAY, key=f"k{n}") for n in range(2)),
            *(new_job(limits=held) for _ in range(2)),
        ]
        store.push(jobs)
        rows = claim(store, 9)
        store.settle([Rollback(row.lease, 100 * DAY) for row in rows])
        passing(MINUTE)
        passing(DAY)
        assert store.fetch([job.id for job in jobs]) == {}
        assert store.queues() == []
        assert slot_of(store, "one") == ([], [])
        store.push([again := new_job(order_key="k", key="k1", limits=held)])
        assert [row.id for row in claim(store)] == [again.id]

    def test_a_running_job_keeps_it_all_the_same(self, store: Store, passing: Passing) -> None:
        store.configure(QUEUE, {"expires": DAY, "expires_with_jobs": True})
        store.push([new_job(), new_job()])
        (row,) = claim(store)
        passing(MINUTE)
        passing(2 * DAY)
        assert sizes_of(store, QUEUE).total == 2
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    @pytest.mark.parametrize("with_jobs", [False, True])
    def test_a_push_between_look_and_removal_is_not_lost(
        self, store: Store, other_store: Store, passing: Passing, monkeypatch: pytest.MonkeyPatch, with_jobs: bool
    ) -> None:
        store.configure(QUEUE, {"expires": DAY, "expires_with_jobs": with_jobs})
        old = [new_job(delay=100 * DAY), new_job(delay=100 * DAY, order_key="old")] if with_jobs else []
        store.push(old)
        passing(MINUTE)
        pushed = [new_job(), new_job(order_key="k")]
        without_history, left = upkeep.without_history, [pushed]

        def interrupted(purge: Purge, queue: str, age: float) -> bool:
            if left:
                other_store.push(left.pop())
            return without_history(purge, queue, age)

        monkeypatch.setattr(upkeep, "without_history", interrupted)
        passing(DAY)
        monkeypatch.undo()
        if left:  # a store that has no such moment
            other_store.push(left.pop())
            old = []
        expected = [job.id for job in (*old, *pushed)]
        assert store.fetch(expected).keys() == set(expected)
        store.maintain()
        assert [settings.name for settings in store.queues()] == [QUEUE]
        assert len(claim(store)) == 1


class TestExpiryAtTheDoor:
    @pytest.mark.parametrize("value", [0, -1, timedelta(0), "1d", True, float("nan")])
    def test_what_is_no_span_is_refused(self, app: Stanchion, value: Any) -> None:
        with pytest.raises(InvalidInput, match="expires"):
            app.queue(QUEUE, expires=value)

    def test_with_jobs_is_a_flag(self, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="expires_with_jobs must be True or False"):
            app.queue(QUEUE, expires_with_jobs=1)  # type: ignore[arg-type]
