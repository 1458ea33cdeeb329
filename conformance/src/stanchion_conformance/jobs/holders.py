"""Holders: consumers that give a name when they reserve. The lease decides alone, whatever the name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stanchion import JobState, LeaseLost, Queue, Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.jobs.reservation import Reservation
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Commit, Extend
from stanchion.stores.records.workers import HOLDER
from stanchion_conformance.harness import QUEUE, StoreClock, about, claim, new_job, row_of, seconds_until, worker
from stanchion_conformance.operate.waits import until

NAME = "billing:4711"
STRANGE = ("a", "a b", "A", " a", "a ", "é", "e\u0301", "😀", "%", "_", "'", '"', "\\", "x" * 200, "running", "0")


def holders_of(store: Store) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return the queues and the number of jobs of each holder."""
    return {row.id: (row.queues, row.running) for row in store.workers(holders=True) if row.state == HOLDER}


class TestHolders:
    def test_is_shown_while_it_holds_and_after(self, q: Queue, other_app: Stanchion) -> None:
        one = q.push("x")
        (job,) = q.reserve(holder=NAME)
        assert job.worker == NAME
        found = other_app.get(one.id)
        assert found is not None
        assert (found.state, found.worker) == (JobState.RUNNING, NAME)
        job.commit("ok")
        found = other_app.get(one.id)
        assert found is not None
        assert (found.state, found.worker, found.result) == (JobState.DONE, NAME, "ok")

    def test_every_way_of_reserving_takes_one(self, q: Queue) -> None:
        q.push_many(range(5))
        with q.batch(2, holder="batch") as jobs:
            assert [job.worker for job in jobs] == ["batch"] * 2
        assert [job.worker for job in asyncio.run(q.areserve(holder="async"))] == ["async"]
        popped = q.pop(holder="popper")
        assert popped is not None
        assert (popped.state, popped.worker) == (JobState.DONE, "popper")
        found = q.get(popped.id)
        assert found is not None
        assert found.worker == "popper"
        popped = asyncio.run(q.apop(wait=60, holder="async popper"))
        assert popped is not None
        assert popped.worker == "async popper"

    def test_those_who_wait_get_jobs_under_their_own_names(self, q: Queue, app: Stanchion, other_q: Queue) -> None:
        async def wait() -> list[Reservation]:
            names = ("a", "b", "a")
            waiting = [asyncio.ensure_future(q.areserve(wait=60, holder=name)) for name in names]
            polls = context_of(app).waits._polls
            await asyncio.to_thread(until, lambda: sum(map(len, list(polls.values()))) == len(names))
            await asyncio.to_thread(other_q.push_many, [1, 2, 3])
            return [job for jobs in await asyncio.gather(*waiting) for job in jobs]

        assert [job.worker for job in asyncio.run(wait())] == ["a", "b", "a"]

    def test_ends_and_extends_from_elsewhere(self, q: Queue, other_app: Stanchion, clock: StoreClock) -> None:
        q.push_many([1, 2])
        job, other = q.reserve(2, lease=1000, holder=NAME)
        clock.advance(500)
        other_app.reservation(job.id, job.token).extend(5000)
        clock.advance(1000)
        with pytest.raises(LeaseLost):
            other.commit()
        assert other_app.store.recover() is not None
        other_app.reservation(job.id, job.token).commit()
        assert row_of(other_app.store, job.id).worker == NAME

    def test_what_is_rolled_back_moved_or_lost_has_none(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push_many([1, 2, 3])
        back, on, lost = q.reserve(3, lease=30, holder=NAME)
        back.rollback(delay=1000)
        on.move("next")
        clock.advance(31)
        assert [row.id for row in store.recover()] == [lost.id]
        assert [row_of(store, job.id).worker for job in (back, on, lost)] == [None] * 3
        (again,) = q.reserve()
        assert (again.id, again.worker, again.attempt) == (lost.id, None, 2)

    def test_is_asked_to_stop(self, q: Queue, other_q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve(holder=NAME)
        assert not job.cancelled
        other_q.cancel(job.id)
        assert job.cancelled

    @pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 4711, b"x", True])
    def test_a_wrong_name_is_refused(self, q: Queue, name: Any) -> None:
        q.push(1)
        for take in (q.reserve, q.batch, q.pop):
            with pytest.raises(InvalidInput, match="holder"):
                take(holder=name)
        assert q.size().ready == 1


class TestLeaseOfAHolder:
    def test_it_alone_decides_while_workers_live(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("alive")])
        store.push([new_job(), new_job()])
        (short,), (long,) = claim(store, lease=1000.0, holder=NAME), claim(store, lease=10_000.0, holder=NAME)
        for seconds in (500, 1000):
            clock.advance(seconds)
            store.beat([worker("alive")])
            freed = [row.id for row in store.recover()]
        assert freed == [short.id]
        clock.advance(1000)
        store.beat([worker("alive")])
        assert store.recover() == []
        assert store.settle([Commit(long.lease)]) == [JobState.DONE]

    def test_an_extended_one_ends_too(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, holder=NAME, lease=1000.0)
        store.settle([Extend(row.lease, 5000.0)])
        clock.advance(4000)
        assert store.recover() == []
        clock.advance(1500)
        assert [back.id for back in store.recover()] == [row.id]

    def test_the_next_claim_frees_it(self, q: Queue, clock: StoreClock) -> None:
        q.push(1)
        (job,) = q.reserve(lease=30, holder=NAME)
        clock.advance(31)
        (again,) = q.reserve(holder="other")
        assert (again.id, again.attempt, again.worker) == (job.id, 2, "other")
        with pytest.raises(LeaseLost):
            job.commit()

    def test_of_the_name_of_a_worker(self, store: Store, clock: StoreClock) -> None:
        """A dead worker's jobs go back, and not those that a consumer holds under the same name; and the reverse."""
        store.beat([worker("same")])
        store.push([new_job(), new_job(), new_job(), new_job(order_key="k")])
        of_worker, of_holder = claim(store, 2, worker="same"), claim(store, 2, holder="same", lease=1000.0)
        store.settle([Extend(of_holder[0].lease, 1000.0)])
        rows = [(row.id, row.state, row.running) for row in store.workers(holders=True)]
        assert rows == [("same", "running", 2), ("same", HOLDER, 2)]
        clock.advance(31)
        assert {row.id for row in store.recover()} == {row.id for row in of_worker}
        store.maintain()
        assert store.workers() == []
        clock.advance(1000)
        store.beat([worker("same")])
        assert {row.id for row in store.recover()} == {row.id for row in of_holder}

    def test_a_worker_of_that_name_is_not_told_to_stop_its_jobs(self, store: Store) -> None:
        store.push([new_job(), new_job()])
        (of_worker,), (of_holder,) = claim(store, worker="same"), claim(store, holder="same")
        store.cancel([of_worker.id, of_holder.id])
        assert store.beat([worker("same")]).cancelled == [of_worker.id]

    def test_a_live_worker_of_that_name_does_not_keep_it(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("same")])
        store.push([new_job()])
        (row,) = claim(store, holder="same", lease=30.0)
        clock.advance(31)
        store.beat([worker("same")])
        assert [back.id for back in store.recover()] == [row.id]

    def test_a_lost_one_counts_as_begun(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        for attempt in (1, 2):
            (row,) = claim(store, holder=NAME, lease=30.0)
            assert row.attempts == attempt
            clock.advance(31)
            assert len(store.recover()) == 1

    def test_a_repeated_claim_returns_its_jobs(self, store: Store) -> None:
        store.push([new_job(), new_job(), new_job()])
        first = claim(store, 2, holder=NAME, token="t")
        claim(store, 1, holder=NAME, token="other")
        again = claim(store, 2, holder=NAME, token="t", repeat=True)
        assert [(row.id, row.worker) for row in again] == [(row.id, NAME) for row in first]

    def test_slots_and_order_keys_go_on(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job(order_key="k", limits='{"hold": ["s"]}'), new_job(order_key="k", limits='{"hold": ["s"]}')])
        (first,) = claim(store, 5, holder=NAME, lease=30.0)
        assert first.worker == NAME
        assert claim(store, 5, holder="other") == []
        assert store.settle([Commit(first.lease)]) == [JobState.DONE]
        (second,) = claim(store, 5, holder="other", lease=30.0)
        assert second.worker == "other"
        clock.advance(31)
        assert [row.id for row in store.recover()] == [second.id]

    def test_in_a_limited_queue_with_lanes(self, q: Queue, store: Store) -> None:
        q.configure(lanes=4, max_running=3, max_rate=1000)
        q.push_many(range(5))
        assert [job.worker for job in q.reserve(5, holder=NAME)] == [NAME] * 3
        assert holders_of(store) == {NAME: ((QUEUE,), 3)}


class TestListOfHolders:
    def test_names_queues_and_numbers(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job() for _ in range(5)] + [new_job(queue="mail")])
        claim(store, 2, holder="b")
        claim(store, 1)
        claim(store, 1, worker="w")
        clock.advance(10)
        claim(store, 1, holder="a")
        claim(store, 1, holder="b", queue="mail")
        assert [row.id for row in other_store.workers()] == ["w"]
        found = other_store.workers(holders=True)
        assert [(row.id, row.state, row.queues, row.running) for row in found] == [
            ("w", "running", (QUEUE,), 1),
            ("a", HOLDER, (QUEUE,), 1),
            ("b", HOLDER, ("mail", QUEUE), 3),
        ]
        assert (found[2].heartbeat, found[2].threads) == (0.0, 0)
        assert seconds_until(store, found[2].started_at) == about(-10)
        assert seconds_until(store, found[2].last_seen_at) == about(0)

    def test_one_that_holds_nothing_is_not_there(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store, holder=NAME)
        store.settle([Commit(row.lease)])
        assert store.workers(holders=True) == []

    def test_strange_names_are_told_apart(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job() for _ in STRANGE])
        rows = [claim(store, holder=name, lease=1000.0 * (number + 1))[0] for number, name in enumerate(STRANGE)]
        assert [row.worker for row in rows] == list(STRANGE)
        assert [row_of(store, row.id).worker for row in rows] == list(STRANGE)
        assert holders_of(store) == dict.fromkeys(STRANGE, ((QUEUE,), 1))
        clock.advance(1000 * (len(STRANGE) // 2) + 500)
        lost = {row.id for row in rows[: len(STRANGE) // 2]}
        assert {row.id for row in store.recover()} == lost
        assert store.settle([Commit(row.lease) for row in rows[len(STRANGE) // 2 :]]) == [JobState.DONE] * len(lost)
