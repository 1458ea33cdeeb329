"""Maintenance of the schema, and without a worker: by `app.maintain()`, and by consumers, a share each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.context import context_of
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of, state, worker


def until(reached: Callable[[], Any]) -> None:
    """Wait until something is reached, for as long as the slowest machine takes."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def no_share_runs() -> bool:
    """Return whether no share of this process is under way."""
    return all(thread.name != "stanchion-upkeep" for thread in threading.enumerate())


def lost_and_ended(q: Queue, clock: StoreClock) -> tuple[str, str]:
    """Return the ids of a job whose lease has run out, and of a finished one whose time in history is over."""
    q.configure(history_ttl=100)
    ended = q.push("ended")
    q.pop()
    lost = q.push("lost")
    q.reserve(lease=10)
    clock.advance(200)
    return lost.id, ended.id


class TestSetup:
    def test_of_what_is_set_up_takes_no_step(self, store: Store, other_store: Store) -> None:
        store.setup()
        store.push([job := new_job()])
        assert other_store.setup(dry_run=True) == other_store.setup() == []
        other_store.check()
        assert row_of(other_store, job.id).payload == job.payload


class TestMaintain:
    def test_takes_back_what_was_lost_and_purges(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        lost, ended = lost_and_ended(q, clock)
        assert app.maintain() == (1, ())
        assert (state(app.store, lost), app.get(ended)) == (JobState.READY, None)
        assert app.maintain() == (0, ())

    def test_of_a_dead_worker_too(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        dead = []
        app.on("dead")(lambda job, _error: dead.append(job.id))
        store.beat([replace(worker("w"), began=())])
        store.push([new_job()])
        (row,) = claim(store, worker="w")
        assert app.maintain().recovered == 0
        clock.advance(31)
        assert app.maintain().recovered == 1
        assert (state(store, row.id), row_of(store, row.id).attempts, dead) == (JobState.READY, 0, [])
        assert app.workers() == []

    def test_fires_the_event_of_those_that_died(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        dead = []
        app.on("dead")(lambda job, _error: dead.append(job.id))
        last, again = q.push({}, max_attempts=1), q.push({})
        q.reserve(2, lease=10)
        clock.advance(11)
        assert app.maintain().recovered == 2
        assert (dead, state(app.store, again.id)) == ([last.id], JobState.READY)


class TestShares:
    def test_are_done_by_one_process_at_a_time(
        self, app: Stanchion, other_app: Stanchion, q: Queue, clock: StoreClock
    ) -> None:
        _, ended = lost_and_ended(q, clock)
        assert [context_of(one).upkeep.share() for one in (app, other_app, app)] == [True, False, False]
        assert app.get(ended) is None
        clock.advance(31)
        assert [context_of(one).upkeep.share() for one in (other_app, app)] == [True, False]

    def test_take_back_what_was_lost_by_the_last_one(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        store.push([new_job(), new_job()])
        (early,), (late,) = claim(store, lease=10.0), claim(store, worker="w")
        clock.advance(11)
        store.beat([worker("w")])
        context_of(app).upkeep.share()
        clock.advance(31)
        context_of(app).upkeep.share()
        assert [row_of(store, row.id).state for row in (early, late)] == ["queued", "running"]
        clock.advance(31)
        context_of(app).upkeep.share()
        assert row_of(store, late.id).state == "queued"

    def test_take_back_what_is_lost_by_now_while_the_store_answers(
        self, app: Stanchion, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that the store has answered without a gap needs no second round."""
        steadiness = context_of(app).upkeep.steadiness
        context_of(app).upkeep.share()
        store.push([new_job()])
        (row,) = claim(store, lease=10.0)
        monkeypatch.setattr(steadiness, "_steady_from", 0.0)
        monkeypatch.setattr(steadiness, "_answered_at", time.monotonic() + 60)
        clock.advance(11)
        assert context_of(app).upkeep.share()
        assert row_of(store, row.id).state == "queued"

    def test_hear_of_the_answers_of_the_store(self, app: Stanchion, q: Queue) -> None:
        steadiness = context_of(app).upkeep.steadiness
        q.push(1)
        assert not steadiness.steady
        for use in (q.reserve, lambda: q.pop(wait=0.01), lambda: q.reserve(wait=1.5)):
            before = steadiness._answered_at
            use()
            assert steadiness._answered_at > before

    @pytest.mark.parametrize("how", ["wait", "pop", "commit"])
    def test_are_done_by_consumers(
        self, app: Stanchion, other_app: Stanchion, q: Queue, clock: StoreClock, how: str
    ) -> None:
        elsewhere = other_app.queue("elsewhere")
        lost, ended = lost_and_ended(elsewhere, clock)

        def are_done() -> bool:
            return app.get(ended) is None and state(app.store, lost) is JobState.READY

        context_of(app).upkeep.every = 0.0
        q.push({})
        match how:
            case "commit":
                (job,) = app.queue(QUEUE).reserve()
                until(lambda: app.get(ended) is None)
                job.commit()
            case "pop":
                q.pop()
                until(lambda: app.get(ended) is None)
                q.pop(wait=0.01)
            case "wait":
                context_of(app).upkeep.every = 0.2  # each try would start a thread, which pile up on a slow machine
                until(lambda: not app.queue("empty").reserve(wait=0.01) and are_done())
        until(are_done)
        until(no_share_runs)  # one that goes on would take the lease of the next case's shares

    def test_that_fail_harm_no_consumer(self, app: Stanchion, q: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
        tried = []

        def fail() -> bool:
            tried.append(1)
            raise RuntimeError("no answer")

        context_of(app).upkeep.every = 0.0
        monkeypatch.setattr(context_of(app).upkeep, "share", fail)
        q.push(1)
        (job,) = q.reserve(wait=0.01)
        job.commit()
        until(lambda: len(tried) >= 2)
        assert q.counts().committed == 1

    def test_are_no_call_of_the_store_for_each_job(
        self, app: Stanchion, q: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shares = []
        monkeypatch.setattr(context_of(app).upkeep, "share", lambda: shares.append(1))
        q.push_many(range(20))
        for job in q.reserve(20):
            job.commit()
        assert shares == []
