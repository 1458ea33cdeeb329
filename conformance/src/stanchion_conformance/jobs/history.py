"""Finished jobs: kept for a while, then purged."""

from __future__ import annotations

from datetime import timedelta

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_ids
from stanchion.queues.operating import purge
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.harness import QUEUE, StoreClock, new_job


def finish(q: Queue, count: int = 1) -> list[str]:
    """Push and pop jobs; return their ids."""
    q.push_many(range(count))
    return [job.id for _ in range(count) if (job := q.pop()) is not None]


def finished(job: NewJob, at: int) -> JobRow:
    """Return the row of a job that ended at this time."""
    return created(job, at)._replace(state=JobState.DONE.value, finished_at=at)


class TestHistory:
    def test_holds_result_errors_and_times(self, q: Queue, other_app: Stanchion) -> None:
        pushed = q.push({"id": 1}, tenant="acme", priority=4, key="k", headers={"trace": "t"})
        q.reserve()[0].rollback(delay=0, error="once")
        (job,) = q.reserve()
        job.progress(0.5)
        job.commit([1, 2])
        seen = other_app.get(pushed.id)
        assert seen is not None
        assert (seen.queue, seen.state, seen.payload, seen.result) == (QUEUE, JobState.DONE, {"id": 1}, [1, 2])
        assert (seen.tenant, seen.priority, seen.key, seen.headers) == ("acme", 4, "k", {"trace": "t"})
        assert (seen.attempts, seen.failures, seen.progress) == (2, 1, 0.5)
        assert [entry["error"] for entry in seen.errors] == ["once"]
        assert seen.enqueued_at == pushed.enqueued_at
        assert seen.started_at == job.started_at
        assert seen.finished_at is not None
        assert seen.pickup_delay is not None

    def test_is_read_page_by_page_newest_first(self, q: Queue) -> None:
        ids = finish(q, 5)
        live = q.push({})
        first = q.history(limit=3)
        second = q.history(limit=3, after=first[-1].id)
        assert [job.id for job in first + second] == list(reversed(ids))
        assert live.id not in {job.id for job in first + second}

    @pytest.mark.parametrize("end", ["commit", "bury", "abandon", "pop", "cancel", "lost"])
    def test_ttl_0_keeps_none(self, q: Queue, clock: StoreClock, end: str) -> None:
        q.configure(history_ttl=0)
        pushed = q.push({}, max_attempts=1)
        match end:
            case "pop":
                q.pop()
            case "cancel":
                q.cancel(pushed.id)
            case "lost":
                q.reserve(lease=10)
                clock.advance(11)
                context_of(q).store.recover()
            case _:
                getattr(q.reserve()[0], end)()
        assert q.get(pushed.id) is None
        assert q.history() == []
        assert q.size().total == 0

    def test_ttl_0_still_counts(self, q: Queue) -> None:
        q.configure(history_ttl=0)
        finish(q, 3)
        assert (q.counts().pushed, q.counts().popped) == (3, 3)


class TestPurge:
    def test_takes_what_is_older_than_the_queue_s_ttl(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl=100)
        old = finish(q, 3)
        clock.advance(60)
        young = finish(q, 2)
        assert q.purge_history() == 0
        clock.advance(41)
        assert q.purge_history() == 3
        assert q.purge_history() == 0
        assert set(store.fetch([*old, *young])) == set(young)

    def test_keeps_a_week_by_default(self, q: Queue, clock: StoreClock) -> None:
        finish(q)
        clock.advance(7 * 86_400 - 60)
        assert q.purge_history() == 0
        clock.advance(61)
        assert q.purge_history() == 1

    def test_as_maintenance_keeps_a_week_by_default(self, q: Queue, store: Store, clock: StoreClock) -> None:
        (job,) = finish(q)
        clock.advance(7 * 86_400 - 60)
        store.maintain()
        assert list(store.fetch([job])) == [job]
        clock.advance(61)
        store.maintain()
        assert store.fetch([job]) == {}

    def test_or_than_asked(self, q: Queue, clock: StoreClock) -> None:
        finish(q, 3)
        clock.advance(60)
        finish(q, 2)
        assert q.purge_history(older_than=timedelta(seconds=30)) == 3
        assert q.purge_history(older_than=0) == 2

    def test_or_than_all_that_ever_was(self, q: Queue) -> None:
        finish(q)
        assert q.purge_history(older_than=100 * 365 * 86_400) == 0
        assert len(q.history()) == 1

    def test_is_part_of_maintenance(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl=100)
        old = finish(q, 3)
        clock.advance(60)
        young = finish(q, 2)
        clock.advance(41)
        store.maintain()
        assert set(store.fetch([*old, *young])) == set(young)

    def test_of_all_queues_takes_no_more_time_than_it_is_given_and_says_which_are_left(
        self, app: Stanchion, store: Store, clock: StoreClock
    ) -> None:
        small, large = app.queue("a"), app.queue("b")
        for q, jobs in ((small, 3), (large, 6000)):
            q.configure(history_ttl=100)
            ended = finished(new_job(queue=q.name), store.now())
            store.adopt([ended._replace(id=one) for one in new_ids(jobs)])
        clock.advance(101)
        behind = store.maintain(seconds=0)
        assert small.history() == []
        assert behind == (["b"] if large.history() else [])
        assert store.maintain(seconds=60) == []
        assert large.history() == []

    def test_in_rounds(self, q: Queue, store: Store) -> None:
        ended = finished(new_job(), store.now() - 1)
        store.adopt([ended._replace(id=one) for one in new_ids(1_100)])
        assert q.purge_history(older_than=0) == 1_100
        assert q.history() == []
        assert q.purge_history(older_than=0) == 0

    def test_touches_no_live_job_and_no_other_queue(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        kept = [q.push(1, delay=9000).id, *finish(app.queue("other"))]
        running = q.push(2)
        q.reserve(lease=9000)
        clock.advance(60)
        assert q.purge_history(older_than=0) == 0
        assert set(app.store.fetch([*kept, running.id])) == {*kept, running.id}

    def test_of_an_unknown_queue_is_nothing(self, app: Stanchion, store: Store) -> None:
        assert purge(store, "nowhere") == 0
        assert app.queue("nowhere").purge_history(older_than=0) == 0

    def test_counts_nothing(self, q: Queue) -> None:
        finish(q, 3)
        before = q.counts()
        assert q.purge_history(older_than=0) == 3
        assert q.counts() == before
