"""Signals of ends of jobs and of freed starts under `max_running`; and the listeners that they wake."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.context import context_of
from stanchion.jobs.handle import JobHandle
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Abandon, Bury, Commit
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, claim, find_jobs, in_threads, new_job, payloads
from stanchion_conformance.operate.waits import hears_ends, until
from stanchion_conformance.operate.wakeup import LONG, SOON, seconds, soon


class TestSignalledEnds:
    """For stores with push signals: the end of a job and a freed start send signals too."""

    @pytest.fixture(autouse=True)
    def signals(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert store.capabilities.push_wakeup, "it has no push signal: del TestSignalledEnds"

    @pytest.mark.parametrize("end", ["commit", "bury", "cancel", "abandon", "pop", "dead letter"])
    def test_who_waits_for_a_result_is_told_of_each_end(
        self, store: Store, other_store: Store, other_q: Queue, end: str
    ) -> None:
        app = Stanchion(store=store, poll=LONG)
        if end == "dead letter":
            other_q.configure(dead_letter="graveyard")
        job = new_job()
        other_store.push([job])
        ended: list[float] = []

        def act() -> None:
            until(lambda: hears_ends(app))
            if end == "cancel":
                other_store.cancel([job.id])
            elif end == "pop":
                pop(other_store, Claim(QUEUE, 1, "t"))
            else:
                (row,) = claim(other_store)
                if end == "abandon":
                    other_store.cancel([row.id])
                outcome: Any = {"commit": Commit, "abandon": Abandon}.get(end)
                other_store.settle([outcome(row.lease) if outcome else Bury(row.lease, "why")])
            ended.append(time.monotonic())

        signs: list[Signs] = []
        listener = store.listen([], finished=[QUEUE])
        try:
            with in_threads([act]):
                waiter = context_of(app).waits.for_job(
                    job.id, time.monotonic() + (1.0 if end == "dead letter" else LONG)
                )
                waiter.result()
                until(lambda: ended)
                until(lambda: heard(listener, signs, job.id))
        finally:
            listener.close()
        if end != "dead letter":
            assert time.monotonic() - ended[0] < SOON

    def test_an_end_during_a_look_is_not_missed(self, store: Store, other_store: Store) -> None:
        stale: Any = StaleOnce(store)
        app = Stanchion(store=stale, poll=LONG)
        job = new_job()
        other_store.push([job])

        def end() -> None:
            until(lambda: hears_ends(app))
            context_of(app).waits._polls["jobs"].signed(Signs(finished=frozenset([job.id])))  # have it poll once more
            context_of(app).waits._wake_coordinator()
            until(lambda: stale.read)
            (row,) = claim(other_store)
            other_store.settle([Commit(row.lease)])
            time.sleep(0.3)  # the signal comes during the look
            stale.go_on.set()

        stale.ready = lambda: hears_ends(app)
        with in_threads([end]):
            assert seconds(lambda: JobHandle(app, job.id).result(timeout=LONG)) < SOON

    def test_a_free_place_ends_the_wait(self, store: Store, other_store: Store, other_q: Queue) -> None:
        q = Stanchion(store=store, poll=LONG).queue(QUEUE)
        q.configure(max_running=1)
        other_q.push_many([1, 2, 3])
        (row,) = claim(other_store)
        with in_threads([soon(lambda: other_store.settle([Commit(row.lease)]), 0.3)]):
            assert seconds(lambda: payloads(q.reserve(wait=LONG)) == [2]) < SOON
        (last,) = find_jobs(store, queue=QUEUE, states=(JobState.RUNNING,))
        with in_threads([soon(lambda: other_store.settle([Bury(last.lease, "why")]), 0.3)]):
            assert seconds(lambda: payloads(q.reserve(wait=LONG)) == [3]) < SOON

    def test_a_resume_ends_the_wait(self, store: Store, other_q: Queue) -> None:
        q = Stanchion(store=store, poll=LONG).queue(QUEUE)
        other_q.push(1)
        other_q.pause()
        with in_threads([soon(other_q.resume, 0.3)]):
            assert seconds(lambda: payloads(q.reserve(wait=LONG)) == [1]) < SOON

    def test_one_of_several_interchangeable_listeners_is_woken(self, store: Store, other_store: Store) -> None:
        other_store.push([new_job(queue="before")])  # what a first push makes is there
        other_store.configure(QUEUE, {})
        listeners = [store.listen([QUEUE], interchangeable=True) for _ in range(10)]
        woken: list[bool] = []
        try:
            with in_threads([lambda one=one: woken.append(one.wait(1.5)) for one in listeners]):  # type: ignore[misc]
                time.sleep(0.5)
                other_store.push([new_job()])
        finally:
            for listener in listeners:
                listener.close()
        assert 1 <= sum(woken) <= 3, "a push may be told here and by the signal"

    def test_a_sign_that_comes_while_none_of_them_waits_is_kept(self, store: Store, other_store: Store) -> None:
        listeners = [store.listen([QUEUE], interchangeable=True) for _ in range(3)]
        try:
            other_store.push([new_job()])
            assert any(listener.wait(SOON / len(listeners)) for listener in listeners)
        finally:
            for listener in listeners:
                listener.close()

    def test_a_sign_is_passed_on(self, store: Store) -> None:
        one, other = (store.listen([QUEUE], interchangeable=True) for _ in range(2))
        try:
            with in_threads([soon(one.pass_on, 0.2)]):
                assert other.wait(LONG)
        finally:
            one.close()
            other.close()


class StaleOnce:
    """A store that once, when all is `ready`, returns an old read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read, self.go_on = False, threading.Event()
        self.ready: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def fetch(self, ids: Sequence[str]) -> Any:
        """Return the jobs, once when it is too late."""
        found = self._store.fetch(ids)
        if not self.read and self.ready():
            self.read = True
            self.go_on.wait(SOON)
        return found


def heard(listener: Listener, signs: list[Signs], job_id: str) -> bool:
    """Tell whether a listener has been told of the end of a job, or that any may have ended."""
    listener.wait(0.05)
    signs.append(listener.signs())
    return any(one.finished is None or job_id in one.finished for one in signs)
