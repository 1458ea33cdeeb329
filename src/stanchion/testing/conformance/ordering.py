"""Order keys: jobs of one key run one at a time, in the order in which they were enqueued."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.errors import InvalidInput
from stanchion.ids import new_id
from stanchion.stores.gates import order_gate
from stanchion.stores.protocol import Store
from stanchion.stores.records import Bury, Claim, Commit, JobRow, JobState, Move, NewJob, Redriven, Rollback
from stanchion.stores.transitions import uprooted
from stanchion.testing.conformance.harness import (
    QUEUE,
    NewStore,
    StoreClock,
    all_at_once,
    claim,
    in_threads,
    new_job,
    payloads,
    row_of,
    state,
    worker,
)
from stanchion.testing.conformance.semaphores import SMTP, commit, limited, push, settle, took, took_at_last, usage
from stanchion.testing.conformance.slots_freed import ENDS
from stanchion.testing.conformance.wakeup import LONG, SOON, Counting, seconds, soon

KEY = "order-17"


def keyed(order_key: str = KEY, **fields: Any) -> NewJob:
    """Return a job of an order key."""
    return new_job(order_key=order_key, **fields)


def back(store: Store, row: JobRow, delay: float = 0.0, **fields: Any) -> None:
    """Give a job back."""
    assert settle(store, Rollback(row.id, row.token or "", delay, **fields)) != [None]


class TestOneAtATime:
    def test_in_the_order_of_the_enqueue(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(4)))
        for job in ids:
            (row,) = claim(store, 4)
            assert row.id == job
            assert took(store, 4) == []
            commit(store, row)
        assert store.sizes(QUEUE).total == 0

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
        assert row_of(store, second).waits_for == order_gate(QUEUE, KEY)

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
        assert (row.attempts, row.started_at, row.held) == (0, None, 0)
        assert store.counts(QUEUE).reserved == 1
        assert store.sizes(QUEUE)._asdict() == {"total": 2, "ready": 0, "scheduled": 0, "waiting": 1, "running": 1}
        assert store.next_due([QUEUE]) is None

    def test_popped_in_order(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(3)))
        assert [row.id for row in store.pop(Claim(QUEUE, 1, new_id()))] == ids[:1]
        (row,) = claim(store, 3)
        assert store.pop(Claim(QUEUE, 1, new_id())) == []
        commit(store, row)
        assert [row.id for row in store.pop(Claim(QUEUE, 1, new_id()))] == ids[2:]

    def test_thousands_of_one_key_are_in_nobodys_way(self, store: Store) -> None:
        push(store, keyed(priority=1))
        (row,) = claim(store)
        for _ in range(3):
            push(store, *(keyed() for _ in range(1000)))
        plain = push(store, new_job(priority=-1))
        assert took_at_last(store, 2) == plain
        assert store.sizes(QUEUE).waiting == 3000
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
            store.settle([Commit(row.id, row.token or "") for row in first[start : start + 500]])
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
    """An earlier live job of the key goes first, wherever it is."""

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
        store.beat(worker("w1"))
        store.beat(worker("w2", heartbeat=1000.0))
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
        if key is None:  # it has had its turn once, and holds on to it
            (row,) = claim(store, 2)
            back(store, row, 50.0)
        store.push([new_job('"new"', key="k", on_duplicate="replace", delay=100.0)])
        assert took(store, 2) == []
        clock.advance(101)
        (row,) = claim(store, 2)
        assert (row.id, row.payload) == (first, '"new"')
        commit(store, row)
        assert took(store) == [second]


class TestTheNextHasItsTurn:
    def held(self, store: Store) -> tuple[JobRow, str]:
        """Return a running job, and the next one of its key, which waits."""
        _, second = push(store, keyed(), keyed())
        (row,) = claim(store, 2)
        assert state(store, second) == JobState.WAITING
        return row, second

    @pytest.mark.parametrize("end", ["committed", "buried", "abandoned", "moved"])
    def test_when_the_first_ends(self, store: Store, end: str) -> None:
        row, second = self.held(store)
        settle(store, ENDS[end](row.id, row.token or ""))
        assert state(store, second) == JobState.READY
        assert took(store) == [second]

    def test_when_it_has_failed_for_the_last_time(self, store: Store) -> None:
        first, second = push(store, keyed(max_attempts=1), keyed())
        (row,) = claim(store, 2)
        assert row.id == first
        back(store, row, 100.0, error="no")
        assert took(store) == [second]

    def test_when_it_is_a_dead_letter(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        row, second = self.held(store)
        settle(store, Bury(row.id, row.token or "", "no"))
        assert took(store) == [second]
        assert took(store, queue="letters") == [row.id]

    def test_when_it_was_asked_to_stop(self, store: Store) -> None:
        row, second = self.held(store)
        store.cancel([row.id])
        assert took(store) == []
        back(store, row, 100.0)
        assert took(store) == [second]

    @pytest.mark.parametrize("how", ["cancelled", "taken", "popped"])
    def test_when_it_had_not_begun(self, store: Store, clock: StoreClock, how: str) -> None:
        first, second = push(store, keyed(delay=100.0), keyed())
        assert took(store, 2) == []
        if how == "cancelled":
            store.cancel([first])
        elif how == "taken":
            assert store.take([first]) == [first]
        else:
            clock.advance(101)
            assert [row.id for row in store.pop(Claim(QUEUE, 1, new_id()))] == [first]
        assert took(store, 2) == [second]

    def test_when_it_waited_for_its_retry(self, store: Store) -> None:
        row, second = self.held(store)
        back(store, row, 100.0)
        store.cancel([row.id])
        assert took(store) == [second]

    def test_when_it_waited_for_a_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 0)
        first, second = push(store, limited(SMTP, order_key=KEY), keyed())
        assert took(store, 2) == []
        store.cancel([first])
        assert took(store, 2) == [second]

    def test_past_those_who_left_the_line(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(5)))
        (row,) = claim(store, 5)
        store.cancel(ids[1:4])
        commit(store, row)
        assert took(store) == ids[4:]

    def test_when_another_queue_takes_it_up(self, store: Store) -> None:
        there = push(store, keyed(queue="next"))[0]
        row, second = self.held(store)
        settle(store, Move(row.id, row.token or "", "next"))
        assert took(store) == [second]
        (first,) = claim(store, 2, queue="next")
        assert first.id == there, "it was there before"
        commit(store, first)
        assert took(store, queue="next") == [row.id]

    def test_of_a_queue_that_was_deleted_nothing_is_left(self, store: Store) -> None:
        self.held(store)
        store.drop_queue(QUEUE)
        ids = push(store, keyed(), keyed())
        assert took(store, 2) == ids[:1]

    def test_nobody_else_ends_it(self, store: Store) -> None:
        row, second = self.held(store)
        commit(store, row)
        (running,) = claim(store)
        third = push(store, keyed())[0]
        assert took(store) == []
        for repeat in (False, True):
            assert store.settle([Commit(second, "old")], repeat=repeat) == [None]
            store.settle([Commit(row.id, row.token or "")], repeat=True)
            assert took(store) == []
        commit(store, running)
        assert took(store) == [third]


class TestInASecondLife:
    def test_a_dead_first_goes_first_again(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(3)))
        (row,) = claim(store, 3)
        settle(store, Bury(row.id, row.token or "", "no"))
        (second,) = claim(store, 3)
        assert second.id == ids[1]
        assert store.retry([ids[0]]) == [Redriven.READY]
        assert took(store, 3) == [], "one at a time"
        commit(store, second)
        (first,) = claim(store, 3)
        assert first.id == ids[0], "it was enqueued before the third"
        commit(store, first)
        assert took(store, 3) == [ids[2]]

    def test_a_retry_brings_its_own_turn_forward(self, store: Store) -> None:
        first, second = push(store, keyed(), keyed())
        (row,) = claim(store, 2)
        back(store, row, 600.0)
        store.retry([first])
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store) == [second]

    def test_a_retry_of_one_that_waits_changes_nothing(self, store: Store) -> None:
        _, second = push(store, keyed(), keyed())
        claim(store, 2)
        before = row_of(store, second)
        assert store.retry([second]) == [Redriven.READY]
        assert row_of(store, second) == before

    def test_a_copy_comes_last(self, store: Store) -> None:
        ids = push(store, keyed(), keyed())
        (row,) = claim(store)
        commit(store, row)
        copy = new_id()
        store.replay([ids[0]], [copy])
        (row,) = claim(store, 2)
        assert row.id == ids[1]
        commit(store, row)
        assert took(store) == [copy]

    def test_adopted_jobs_keep_their_order(self, store: Store, new_store: NewStore) -> None:
        ids = push(store, *(keyed(priority=n) for n in range(3)))
        (row,) = claim(store, 3)
        back(store, row, 0.0)
        rows = [uprooted(row_of(store, job)) for job in ids]
        assert sorted(store.take(ids)) == sorted(ids)
        there = new_store()
        assert there.adopt(rows[::-1]) == [True] * 3
        for job in ids:
            (row,) = claim(there, 3)
            assert row.id == job
            commit(there, row)

    def test_an_adopted_job_that_is_older_goes_before_those_that_wait(self, store: Store) -> None:
        older = new_job(order_key=KEY)
        store.push([older])
        (row,) = store.fetch([older.id]).values()
        store.take([older.id])
        first, second = push(store, keyed(), keyed())
        (running,) = claim(store, 2)
        assert running.id == first
        assert store.adopt([row]) == [True]
        assert took(store, 3) == []
        commit(store, running)
        (row,) = claim(store, 3)
        assert row.id == older.id
        commit(store, row)
        assert took(store) == [second]

    def test_a_unique_key_stays_with_a_job_that_waits(self, store: Store) -> None:
        _, second = push(store, keyed(key="1"), keyed(key="2"))
        claim(store, 2)
        answer = store.push([keyed("order-18", key="2")])
        assert [(pushed.id, pushed.duplicate) for pushed in answer] == [(second, True)]
        store.push([new_job('"new"', key="2", on_duplicate="replace")])
        row = row_of(store, second)
        assert (row.payload, row.order_key) == ('"new"', KEY)
        assert took(store) == []


class TestOrderAndSlots:
    def test_who_waits_for_his_turn_holds_no_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        ids = push(store, *(limited(SMTP, order_key=KEY) for _ in range(2)), limited(SMTP))
        assert took(store, 3) == [ids[0], ids[2]]
        assert usage(store) == (2, 0)
        assert row_of(store, ids[1]).waits_for == order_gate(QUEUE, KEY)

    def test_a_first_that_waits_for_its_retry_holds_no_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        _, second, other = push(store, *(limited(SMTP, order_key=KEY) for _ in range(2)), limited(SMTP))
        (row,) = claim(store, 3)
        back(store, row, 100.0, error="no")
        assert took(store, 3) == [other]
        assert state(store, second) == JobState.WAITING

    def test_first_his_turn_then_the_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, order_key=KEY), limited(SMTP, order_key=KEY), limited(SMTP, order_key="other"))
        (row,) = claim(store, 3)
        assert store.permits(SMTP) == ([ids[0]], [ids[2]])
        commit(store, row)
        (row,) = claim(store, 3)
        assert row.id == ids[2]
        assert store.permits(SMTP) == ([ids[2]], [ids[1]])
        commit(store, row)
        (row,) = claim(store, 3)
        assert (row.id, row.held) == (ids[1], 2)
        commit(store, row)
        assert usage(store) == (0, 0)


class TestOrderInRaces:
    def test_never_two_at_once_and_always_in_order(self, store: Store, stores: list[Store]) -> None:
        """Jobs of few keys, some of which fail at first, some scheduled, while more come in."""
        store.set_semaphore(SMTP, 3)
        keys = [f"k{n}" for n in range(5)]
        order: dict[str, list[str]] = defaultdict(list)
        ended: dict[str, list[str]] = defaultdict(list)
        running: dict[str, str] = {}
        lock = threading.Lock()
        total = 100
        deadline = time.monotonic() + 60

        def enqueue() -> None:
            dice = random.Random(1)
            for number in range(total):
                job = limited(
                    *dice.choice([(), (SMTP,)]),
                    order_key=keys[number % len(keys)],
                    priority=dice.randint(-2, 2),
                    delay=dice.choice([0, 0, 0.02]),
                )
                push(store, job)
                order[job.order_key or ""].append(job.id)

        def work(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            while sum(map(len, ended.values())) < total:
                assert time.monotonic() < deadline, f"stuck: {store.sizes(QUEUE)}"
                for row in claim(mine, 2):
                    key = row.order_key or ""
                    with lock:
                        assert running.setdefault(key, row.id) == row.id, "two of a key at once"
                    again = row.attempts < 3 and dice.random() < 0.3
                    with lock:
                        del running[key]
                        if not again:
                            ended[key].append(row.id)
                    if again:
                        back(mine, row, 0.0)
                    else:
                        commit(mine, row)
                time.sleep(0.001)

        workers = [lambda one=one, n=n: work(one, n) for n, one in enumerate(stores[:4])]
        with in_threads([enqueue]):
            all_at_once(workers)
        assert ended == order
        assert usage(store) == (0, 0)

    def test_of_a_commit_and_the_next_one(self, store: Store, other_store: Store) -> None:
        for _ in range(15):
            push(store, keyed())
            (row,) = claim(store)
            (second,) = push(store, keyed())
            got: list[str] = []
            all_at_once(
                [
                    lambda row=row: commit(store, row),  # type: ignore[misc]
                    lambda got=got: got.extend(took(other_store)),  # type: ignore[misc]
                ]
            )
            got += took(store)
            assert got == [second], "it waits although it is its turn"
            store.drop_queue(QUEUE)


class TestWaitingForATurn:
    def test_ends_with_the_commit_of_the_one_before(self, store: Store, other_store: Store) -> None:
        push(store, keyed(), keyed())
        (row,) = claim(other_store, 2)
        poll = LONG if store.capabilities.push_wakeup else 0.5
        queue = Stanchion(store=store, poll=poll).queue(QUEUE)
        with in_threads([soon(lambda: commit(other_store, row), 0.2)]):
            assert seconds(lambda: len(queue.reserve(wait=LONG)) == 1) < SOON

    def test_is_no_spinning(self, store: Store) -> None:
        push(store, keyed(), keyed())
        claim(store)
        counting: Any = Counting(store)
        waiting = Stanchion(store=counting, poll=0.2).queue(QUEUE)
        assert waiting.reserve(wait=1.0) == []
        assert 2 <= counting.calls["claim"] <= 12
