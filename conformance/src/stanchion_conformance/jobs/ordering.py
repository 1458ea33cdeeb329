"""Order keys: jobs of one key run one at a time, in the order of their enqueue."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.rules.capacity.slots import order_slot
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    claim,
    counts_of,
    due_of,
    new_job,
    payloads,
    row_of,
    sizes_of,
    state,
    worker,
)
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, took_at_last, usage

KEY = "order-17"


def keyed(order_key: str = KEY, **fields: Any) -> NewJob:
    """Return a job of an order key."""
    return new_job(order_key=order_key, **fields)


def back(store: Store, row: JobRow, delay: float = 0.0, **fields: Any) -> None:
    """Give a job back."""
    assert settle(store, Rollback(row.lease, delay, **fields)) != [None]


class TestOneAtATime:
    def test_in_the_order_of_the_enqueue(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(4)))
        for job in ids:
            (row,) = claim(store, 4)
            assert row.id == job
            assert took(store, 4) == []
            commit(store, row)
        assert sizes_of(store, QUEUE).total == 0

    def test_for_every_process(self, store: Store, other_store: Store) -> None:
        first, second = push(store, keyed(), keyed())
        (row,) = claim(store)
        assert took(other_store, 2) == []
        assert state(other_store, second) == JobState.WAITING
        commit(store, row)
        assert took(other_store, 2) == [second]
        assert first == row.id

    def test_other_keys_in_parallel(self, store: Store) -> None:
        first, _, other, plain = push(store, keyed(), keyed(), keyed("order-18"), new_job())
        assert took(store, 4) == [first, other, plain]

    def test_the_same_key_of_another_queue_is_another(self, store: Store) -> None:
        here, there = push(store, keyed(), keyed(queue="other"))
        assert took(store) == [here]
        assert took(store, queue="other") == [there]

    @pytest.mark.parametrize(("queue", "key"), [("a", "b:c"), ("a:b", "c")])
    def test_names_that_read_alike_are_kept_apart(self, store: Store, queue: str, key: str) -> None:
        push(store, keyed("b:c", queue="a"), keyed("c", queue="a:b"))
        assert len(claim(store, queue="a")) == len(claim(store, queue="a:b")) == 1
        push(store, keyed(key, queue=queue))
        assert took(store, queue=queue) == []

    def test_whatever_the_priority(self, store: Store) -> None:
        first, second = push(store, keyed(priority=-50), keyed(priority=50))
        assert took(store, 2) == [first]
        assert row_of(store, second).waits_for == order_slot(QUEUE, KEY)

    def test_a_later_batch_comes_later(self, store: Store) -> None:
        first = push(store, keyed(priority=-1))[0]
        second = push(store, keyed(priority=1))[0]
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store, 2) == [second]

    def test_a_parked_job_was_not_delivered(self, store: Store) -> None:
        _, second = push(store, keyed(), keyed())
        claim(store, 2)
        row = row_of(store, second)
        assert (row.attempts, row.started_at, row.slots_held) == (0, None, 0)
        assert counts_of(store, QUEUE).reserved == 1
        assert sizes_of(store, QUEUE)._asdict() == {"total": 2, "ready": 0, "scheduled": 0, "waiting": 1, "running": 1}
        assert due_of(store, QUEUE) is None

    def test_popped_in_order(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(3)))
        assert [row.id for row in pop(store, Claim(QUEUE, 1, new_id())).rows] == ids[:1]
        (row,) = claim(store, 3)
        assert pop(store, Claim(QUEUE, 1, new_id())).rows == []
        commit(store, row)
        assert [row.id for row in pop(store, Claim(QUEUE, 1, new_id())).rows] == ids[2:]

    def test_thousands_of_one_key_are_in_nobodys_way(self, store: Store) -> None:
        push(store, keyed(priority=1))
        (row,) = claim(store)
        for _ in range(3):
            push(store, *(keyed() for _ in range(1000)))
        plain = push(store, new_job(priority=-1))
        assert took_at_last(store, 2) == plain
        assert took_at_last(store, 2) == []
        assert sizes_of(store, QUEUE).waiting == 3000
        commit(store, row)
        assert len(claim(store, 5)) == 1

    def test_thousands_of_keys(self, store: Store) -> None:
        ids = []
        for _ in range(2):
            ids += push(store, *(keyed(f"k{number}") for number in range(1500)))
        first: list[JobRow] = []
        while rows := claim(store, 500):
            first += rows
        assert sorted(row.id for row in first) == sorted(ids[:1500])
        for start in range(0, 1500, 500):
            store.settle([Commit(row.lease) for row in first[start : start + 500]])
        second: list[str] = []
        while rows := claim(store, 500):
            second += [row.id for row in rows]
        assert sorted(second) == sorted(ids[1500:])

    @pytest.mark.parametrize("key", ["", "x" * 201, 5, "a\nb"])
    def test_a_key_is_a_name(self, q: Queue, key: Any) -> None:
        with pytest.raises(InvalidInput, match="order_key"):
            q.push(1, order_key=key)

    def test_through_the_api(self, app: Stanchion, q: Queue) -> None:
        q.push_many([Push(number, order_key=key) for number, key in enumerate("abab")])
        one, two = q.reserve(4)
        assert payloads([one, two]) == [0, 1]
        two.commit()
        assert payloads(q.reserve(4)) == [3]
        assert app.queue(QUEUE).size().waiting == 1


class TestTheFirstIsWaitedFor:
    """An earlier live job of the key goes first, in every state."""

    def test_when_it_is_scheduled(self, store: Store, clock: StoreClock) -> None:
        first, second = push(store, keyed(delay=100.0), keyed())
        assert took(store, 2) == []
        assert (state(store, first), state(store, second)) == (JobState.SCHEDULED, JobState.WAITING)
        clock.advance(101)
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store) == [second]

    @pytest.mark.parametrize("way", [{"error": "no"}, {}, {"refund": True}])
    def test_when_it_waits_for_its_retry(self, store: Store, clock: StoreClock, way: dict[str, Any]) -> None:
        first, second = push(store, keyed(), keyed(priority=9))
        (row,) = claim(store, 2)
        back(store, row, 100.0, **way)
        assert took(store, 2) == []
        assert state(store, second) == JobState.WAITING
        clock.advance(101)
        (again,) = claim(store, 2)
        assert again.id == first
        commit(store, again)
        assert took(store, 2) == [second]

    def test_when_it_was_given_back_for_now(self, store: Store) -> None:
        first, _ = push(store, keyed(priority=-9), keyed(priority=9))
        for _ in range(3):
            (row,) = claim(store, 2)
            assert row.id == first
            back(store, row)

    def test_when_its_lease_was_lost(self, store: Store, clock: StoreClock) -> None:
        first, second = push(store, keyed(), keyed())
        claim(store, 2, lease=10.0)
        clock.advance(11)
        (row,) = claim(store, 2)
        assert (row.id, row.attempts) == (first, 2)
        commit(store, row)
        assert took(store, 2) == [second]

    def test_when_its_worker_died(self, store: Store, clock: StoreClock) -> None:
        first, second = push(store, keyed(), keyed())
        store.beat([worker("w1")])
        store.beat([worker("w2", heartbeat=1000.0)])
        claim(store, 2, worker="w1")
        clock.advance(60)
        assert [row.id for row in store.recover()] == [first]
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store) == [second]

    def test_when_it_waits_for_a_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP, priority=9))
        (holder,) = claim(store)
        first, second = push(store, limited(SMTP, order_key=KEY), keyed(priority=1))
        assert took(store, 2) == []
        assert usage(store) == (1, 1)
        commit(store, holder)
        (row,) = claim(store, 2)
        assert row.id == first
        assert took(store) == []
        commit(store, row)
        assert took(store) == [second]

    @pytest.mark.parametrize("key", ["k", None])
    def test_when_it_was_replaced_by_a_later_schedule(self, store: Store, clock: StoreClock, key: str | None) -> None:
        first, second = push(store, keyed(key="k"), keyed())
        if key is None:  # it was head of line once, and keeps its hold
            (row,) = claim(store, 2)
            back(store, row, 50.0)
        store.push([new_job('"new"', key="k", on_duplicate="replace", delay=100.0)])
        assert took(store, 2) == []
        clock.advance(101)
        (row,) = claim(store, 2)
        assert (row.id, row.payload) == (first, '"new"')
        commit(store, row)
        assert took(store) == [second]
