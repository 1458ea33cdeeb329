"""Keys that finished jobs still hold: `key_ttl`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion, chain
from stanchion.errors import DuplicateKey, InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.query import Query
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, all_at_once, claim, new_job, payloads

HOUR: dict[str, Any] = {"key": "k", "key_ttl": 3600}


def finish(q: Queue, state: str) -> str:
    """End the next job in this state; return its id."""
    job = q.reserve()[0]
    match state:
        case "done":
            job.commit("result")
        case "dead":
            job.bury("no")
        case "cancelled":
            q.cancel(job.id)
            job.rollback()
    return job.id


class TestHeldKeys:
    @pytest.mark.parametrize("state", ["done", "dead"])
    def test_a_finished_job_holds_its_key_for_so_long(self, q: Queue, clock: StoreClock, state: str) -> None:
        first = q.push("first", **HOUR)
        assert not first.duplicate
        assert q.push("live", **HOUR).id == first.id
        finish(q, state)
        again = q.push("again", **HOUR)
        assert (again.id, again.duplicate, again.state, again.payload) == (first.id, True, state, "first")
        assert q.size().total == 0
        assert q.counts().pushed == 1
        clock.advance(3599)
        assert q.push("again", **HOUR).duplicate
        clock.advance(1.1)
        later = q.push("later", **HOUR)
        assert not later.duplicate
        assert payloads(q.reserve(9)) == ["later"]

    def test_a_cancelled_job_frees_its_key(self, q: Queue) -> None:
        first = q.push("first", **HOUR)
        q.cancel(first.id)
        assert not (second := q.push("second", **HOUR)).duplicate
        assert finish(q, "cancelled") == second.id
        assert not q.push("third", **HOUR).duplicate

    def test_only_pushes_that_ask_for_it_meet_it(self, q: Queue, other_q: Queue, app: Stanchion) -> None:
        q.push("first", key="k")
        first = finish(q, "done")
        assert other_q.push("asks", **HOUR).id == first
        assert not app.queue("other").push("elsewhere", **HOUR).duplicate
        assert not q.push("another key", key="K", key_ttl=3600).duplicate
        assert not q.push("asks not", key="k").duplicate
        assert q.push("asks", key="k", key_ttl=timedelta(hours=1)).payload == "asks not"

    def test_the_last_one_counts(self, q: Queue, clock: StoreClock) -> None:
        for n in range(3):
            q.push(n, key="k")
            finish(q, "done")
            clock.advance(10)
        assert q.push("new", **HOUR).payload == 2
        assert q.push("new", key="k", key_ttl=11).payload == 2
        assert not q.push("new", key="k", key_ttl=9).duplicate

    def test_the_last_one_counts_in_whatever_order_they_were_copied(
        self, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        for n in range(2):
            q.push(n, key="k")
            finish(q, "done")
            clock.advance(10)
        rows = store.select(Query("history")).rows
        store.delete([row.ref for row in rows])
        assert store.adopt([max(rows), min(rows)]) == [True, True]
        assert q.push("new", key="k", key_ttl=11).payload == 1

    @pytest.mark.parametrize("key", ["Ä 🐘", "it's 100 %", "a", "a ", "A"])
    def test_keys_may_be_strange(self, q: Queue, key: str) -> None:
        q.push(key, key=key)
        finish(q, "done")
        for other in ("Ä 🐘", "it's 100 %", "a", "a ", "A"):
            assert q.push(other, key=other, key_ttl=60).duplicate == (other == key)

    def test_what_it_does_with_on_duplicate(self, q: Queue) -> None:
        q.push("first", **HOUR)
        first = finish(q, "done")
        assert q.push("second", on_duplicate="replace", **HOUR).id == first
        with pytest.raises(DuplicateKey, match="has finished the job"):
            q.push("second", on_duplicate="raise", **HOUR)
        with pytest.raises(DuplicateKey) as refused:
            q.push_many(["plain", Push("second", on_duplicate="raise", **HOUR)])
        assert refused.value.job_id == first
        assert q.size().total == 0

    def test_in_batches(self, q: Queue) -> None:
        q.push_many([Push(n, key=f"k{n}") for n in range(6)])
        for job in q.reserve(3):
            job.commit()
        got = q.push_many([Push(f"new {n}", key=f"k{n}", key_ttl=60) for n in (0, 3, 6, 6, 7, 2)] + ["plain"])
        assert payloads(got) == [0, 3, "new 6", "new 6", "new 7", 2, "plain"]
        assert [job.duplicate for job in got] == [True, True, False, True, False, True, False]
        assert q.counts().pushed == 9

    def test_a_repeated_call_gets_the_same_answer(self, store: Store) -> None:
        job = new_job(key="k", key_ttl=60.0)
        assert [one.duplicate for _ in range(2) for one in store.push([job])] == [False, False]
        (row,) = claim(store)
        store.settle([Commit(row.lease)])
        (answer,) = store.push([job])
        assert (answer.id, answer.duplicate) == (job.id, False)
        (answer,) = store.push([new_job(key="k", key_ttl=60.0)])
        assert (answer.id, answer.duplicate) == (job.id, True)

    def test_deleted_and_retried_jobs_hold_nothing(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push("first", **HOUR)
        first = finish(q, "dead")
        q.retry(first)
        assert q.push("again", **HOUR).state == JobState.READY
        finish(q, "done")
        clock.advance(10)
        assert q.purge_history(older_than=5) == 1
        assert not q.push("new", **HOUR).duplicate
        finish(q, "done")
        q.configure(history_ttl=3600)
        clock.advance(4000)
        store.maintain()
        assert not q.push("newest", **HOUR).duplicate

    def test_jobs_of_tasks(self, app: Stanchion) -> None:
        @app.task(queue=QUEUE, name="charge")
        def charge(amount: int) -> int:
            return amount

        first = charge.using(key="order-17", key_ttl=3600).enqueue(5)
        app.drain([QUEUE])
        again = charge.using(key="order-17", key_ttl=3600).enqueue(5)
        assert (again.id, again.result(timeout=60)) == (first.id, 5)
        with pytest.raises(InvalidInput, match="part of a flow"):
            chain(charge.using(key="k", key_ttl=3600).s(1), charge.s()).enqueue()

    @pytest.mark.parametrize("wrong", [{"key_ttl": 60}, {"key": "k", "key_ttl": -1}, {"key": "k", "key_ttl": "1h"}])
    def test_what_is_refused(self, q: Queue, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            q.push(1, **wrong)

    def test_it_can_hold_for_as_long_as_there_is_history(self, q: Queue) -> None:
        q.configure(history_ttl=60)
        q.push(1, key="k", key_ttl=60)
        with pytest.raises(InvalidInput, match="keep more history"):
            q.push(1, key="k", key_ttl=61)
        q.configure(history_ttl=0)
        with pytest.raises(InvalidInput, match="keep more history"):
            q.push(1, key="k", key_ttl=1)

    def test_many_callers_run_it_once(self, new_store: NewStore, store: Store) -> None:
        """Callers push one key while others claim and finish at once."""
        ran: list[str] = []
        pushed: list[str] = []

        def push() -> None:
            mine = new_store()
            for _ in range(30):
                pushed.extend(one.id for one in mine.push([new_job(key="k", key_ttl=3600.0)]))

        def work() -> None:
            mine = new_store()
            for _ in range(60):
                for row in claim(mine, 3):
                    if mine.settle([Commit(row.lease)]) == [JobState.DONE]:
                        ran.append(row.id)

        all_at_once([push, push, work, work])
        for row in claim(store, 9):
            store.settle([Commit(row.lease)])
            ran.append(row.id)
        assert len(ran) == 1
        assert set(pushed) == set(ran)
