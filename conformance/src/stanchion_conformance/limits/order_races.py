"""Order keys with slots, in races, and with waiting callers."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from typing import Any

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.capacity.slots import order_slot
from stanchion_conformance.harness import QUEUE, all_at_once, claim, in_threads, row_of, sizes_of, slot_of, state
from stanchion_conformance.jobs.ordering import KEY, back, keyed
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, took, usage
from stanchion_conformance.operate.wakeup import LONG, SOON, Counting, seconds, soon


class TestOrderAndSlots:
    def test_a_job_that_waits_for_its_order_key_holds_no_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        ids = push(store, *(limited(SMTP, order_key=KEY) for _ in range(2)), limited(SMTP))
        assert took(store, 3) == [ids[0], ids[2]]
        assert usage(store) == (2, 0)
        assert row_of(store, ids[1]).waits_for == order_slot(QUEUE, KEY)

    def test_at_many_priorities(self, store: Store) -> None:
        store.set_semaphore(SMTP, 9)
        for _ in range(2):  # by then it is known that jobs of the queue use slots
            ids = push(store, *(limited(SMTP, order_key=str(n), priority=n) for n in range(8)))
            rows = claim(store, 9)
            assert [row.id for row in rows] == ids[::-1]
            for row in rows:
                commit(store, row)
        assert usage(store) == (0, 0)

    def test_a_first_that_waits_for_its_retry_holds_no_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        _, second, other = push(store, *(limited(SMTP, order_key=KEY) for _ in range(2)), limited(SMTP))
        (row,) = claim(store, 3)
        back(store, row, 100.0, error="no")
        assert took(store, 3) == [other]
        assert state(store, second) == JobState.WAITING

    def test_first_the_order_key_then_the_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, order_key=KEY), limited(SMTP, order_key=KEY), limited(SMTP, order_key="other"))
        (row,) = claim(store, 3)
        assert slot_of(store, SMTP) == ([ids[0]], [ids[2]])
        commit(store, row)
        (row,) = claim(store, 3)
        assert row.id == ids[2]
        assert slot_of(store, SMTP) == ([ids[2]], [ids[1]])
        commit(store, row)
        (row,) = claim(store, 3)
        assert (row.id, row.slots_held) == (ids[1], 2)
        commit(store, row)
        assert usage(store) == (0, 0)


class TestOrderInRaces:
    def test_never_two_at_once_and_always_in_order(self, store: Store, stores: list[Store]) -> None:
        """Jobs of few keys, some of which fail at first, some scheduled, while more are pushed."""
        store.set_semaphore(SMTP, 3)
        keys = [f"k{n}" for n in range(5)]
        order: dict[str, list[str]] = defaultdict(list)
        ended: dict[str, list[str]] = defaultdict(list)
        running: dict[str, str] = {}
        lock = threading.Lock()
        total = 100
        deadline = time.monotonic() + 600

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

        def count() -> int:
            with lock:  # a thread that ends the first job of a key makes its list
                return sum(map(len, ended.values()))

        def work(mine: Store, seed: int) -> None:
            dice = random.Random(seed)
            while count() < total:
                assert time.monotonic() < deadline, f"stuck: {sizes_of(store, QUEUE)}"
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
            assert got == [second], "it waits although it is head of line"
            store.drop_queue(QUEUE)


class TestWaitingForAnOrderKey:
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
