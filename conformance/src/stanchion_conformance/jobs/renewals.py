"""Reservations that go on: leases that are extended, and progress that is recorded."""

from __future__ import annotations

import time

import pytest

from stanchion import Queue, Reservation, Stanchion
from stanchion.context import context_of
from stanchion.errors import LeaseLost
from stanchion.jobs.held_job import lease_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Extend, Outcome, Progress, Rollback
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    claim,
    new_job,
    row_of,
)


class TestProgress:
    def test_is_seen_by_others(self, q: Queue, other_app: Stanchion) -> None:
        q.push({})
        (job,) = q.reserve()
        job.progress(0.25)
        assert seen_progress(other_app, job) == pytest.approx(0.25), "the first is written at once"
        job.progress(0.75)
        deadline = time.monotonic() + 60
        while seen_progress(other_app, job) != pytest.approx(0.75):
            assert time.monotonic() < deadline, "the last one soon"
            time.sleep(0.05)

    def test_is_not_written_at_each_call(self, app: Stanchion, q: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.context.progress.EVERY", 3600.0)
        q.push({})
        (job,) = q.reserve()
        for n in range(1000):
            job.progress(n / 1000)
        assert seen_progress(app, job) == 0
        job.commit()
        assert seen_progress(app, job) == pytest.approx(0.999), "the last one with the outcome"

    @pytest.mark.parametrize("end", ["commit", "bury", "abandon", "raise", "return"])
    def test_the_last_comes_with_the_outcome(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
        monkeypatch.setattr("stanchion.context.progress.EVERY", 3600.0)

        @app.task(queue=QUEUE, name="work", max_attempts=1)
        def work(job: Reservation) -> None:
            job.progress(0.25)
            job.progress(0.75)
            if end == "raise":
                raise ValueError
            if end != "return":
                getattr(job, end)()

        handle = work.enqueue()
        app.drain()
        assert handle.job().progress == pytest.approx(0.75)

    def test_of_a_lost_lease_is_refused_later(self, q: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        q.push({})
        (job,) = q.reserve()
        job.progress(0.25)
        context_of(q).store.settle([Rollback(lease_of(job), 60.0)])
        monkeypatch.setattr("stanchion.context.progress.EVERY", 0.0)
        with pytest.raises(LeaseLost):
            job.progress(0.5)

    def test_starts_anew_with_each_attempt(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        job.progress(0.5)
        job.rollback(delay=0)
        (again,) = q.reserve()
        assert float(again.progress) == 0

    def test_in_a_batch(self, store: Store) -> None:
        store.push([new_job(), new_job()])
        one, two = claim(store, 2)
        reports = [Progress(one.lease._replace(token="other"), 0.5), Progress(two.lease, 0.5)]
        assert store.settle(reports) == [None, JobState.RUNNING]
        assert [row_of(store, row.id).progress for row in (one, two)] == [None, 0.5]


def seen_progress(app: Stanchion, job: Reservation) -> float:
    """Return the progress of a job as others see it."""
    seen = app.get(job.id)
    assert seen is not None
    return float(seen.progress)


class TestRenewals:
    """A reservation that continues: `Extend` and `Progress` among other outcomes."""

    def test_are_applied_in_their_place_among_outcomes(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job() for _ in range(4)])
        rows = claim(store, 4, lease=10.0)
        first, second, third, fourth = (row.lease for row in rows)
        outcomes: list[Outcome] = [
            Progress(first, 0.25),
            Commit(first),
            Extend(second, 60.0),
            Rollback(third, 0.0),
            Extend(third, 60.0),
            Progress(fourth, 0.5),
            Progress(fourth, 0.75),
            Extend(fourth, 60.0),
        ]
        ready, running = JobState.READY, JobState.RUNNING
        assert store.settle(outcomes) == [running, JobState.DONE, running, ready, None, running, running, running]
        assert row_of(store, fourth.id).progress == 0.75
        clock.advance(11)
        assert store.recover() == []
        assert [row_of(store, row.id).state for row in rows[1:]] == ["running", "queued", "running"]

    def test_of_an_end_come_too_late(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store, lease=10.0)
        held = row.lease
        assert store.settle([Commit(held), Progress(held, 0.5), Extend(held, 60.0)]) == [JobState.DONE, None, None]

    def test_that_were_never_answered_are_repeated(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, lease=10.0)
        renewals: list[Outcome] = [Extend(row.lease, 60.0), Progress(row.lease, 0.5)]
        for _ in range(2):
            assert store.settle(renewals, repeat=True) == [JobState.RUNNING, JobState.RUNNING]
        clock.advance(61)
        assert store.settle(renewals, repeat=True) == [None, None]
        store.recover()
        assert store.settle(renewals, repeat=True) == [None, None]

    def test_leave_the_rest_as_it_was(self, store: Store) -> None:
        store.push([new_job(), new_job(order_key="k"), new_job(order_key="k")])
        rows = claim(store, 3, lease=10.0)
        before = [row_of(store, row.id) for row in rows]
        store.settle([Progress(row.lease, 0.5) for row in rows])
        assert [row_of(store, row.id)._replace(progress=None) for row in rows] == before
