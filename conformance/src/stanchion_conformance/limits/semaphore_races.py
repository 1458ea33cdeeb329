"""Several semaphores, and many who want them at once: never too many, none locked out, none forgotten."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Rollback
from stanchion_conformance.harness import QUEUE, all_at_once, claim, counts_of, in_threads, row_of, slot_of
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, usage
from stanchion_conformance.limits.slots_freed import ENDS
from stanchion_conformance.operate.wakeup import LONG, SOON, Counting, seconds, soon


class TestSeveralSemaphores:
    NAMES = ("a", "b", "c")

    @pytest.fixture(autouse=True)
    def one_slot_each(self, store: Store) -> None:
        """Make the semaphores."""
        for name in self.NAMES:
            store.set_semaphore(name, 1)

    def used(self, store: Store) -> list[tuple[int, int]]:
        return [usage(store, name) for name in self.NAMES]

    def test_who_resumes_takes_none_twice(self, store: Store) -> None:
        blockers = {name: push(store, limited(name, priority=9))[0] for name in ("b", "c")}
        running = {row.id: row for row in claim(store, 2)}
        (job,) = push(store, limited("c", "a", "b"))
        assert took(store) == []
        assert (self.used(store), row_of(store, job).slots_held) == ([(1, 0), (1, 1), (1, 0)], 1)
        commit(store, running[blockers["b"]])
        assert (self.used(store), row_of(store, job).slots_held) == ([(1, 0), (1, 0), (1, 0)], 2)
        assert took(store) == []
        assert (self.used(store), row_of(store, job).slots_held) == ([(1, 0), (1, 0), (1, 1)], 2)
        commit(store, running[blockers["c"]])
        (row,) = claim(store)
        assert (row.id, row.attempts, row.slots_held) == (job, 1, 3)
        assert self.used(store) == [(1, 0)] * 3
        commit(store, row)
        assert self.used(store) == [(0, 0)] * 3

    def test_who_waits_holds_what_it_has(self, store: Store) -> None:
        push(store, limited("b", priority=9))
        claim(store)
        first, second = push(store, limited("a", "b"), limited("a"))
        assert took(store, 2) == []
        assert slot_of(store, "a") == ([first], [second])
        store.cancel([first])
        assert took(store, 2) == [second]

    @pytest.mark.parametrize("end", ENDS)
    def test_all_are_freed_together(self, store: Store, end: str) -> None:
        _, second = push(store, limited("a", "b", "c"), limited("c", "b", "a"))
        (row,) = claim(store, 2)
        assert self.used(store) == [(1, 1), (1, 0), (1, 0)]
        settle(store, ENDS[end](row.lease))
        assert took(store) == [second]
        assert self.used(store) == [(1, 0)] * 3

    def test_listed_in_any_order_they_lock_nobody_out(self, store: Store, stores: list[Store]) -> None:
        orders = [("a", "b"), ("b", "a"), ("c", "a"), ("b", "c"), ("c", "b", "a"), ("a",), ()]
        ids = push(store, *(limited(*orders[n % len(orders)]) for n in range(70)))
        run_all(store, stores[:4], ids)
        assert self.used(store) == [(0, 0)] * 3


def run_all(store: Store, stores: list[Store], ids: list[str], capacities: dict[str, int] | None = None) -> list[str]:
    """Run jobs in racing threads to their end; check that no more run at once than may. Return them as they began."""
    most = capacities or {row.name: row.capacity for row in store.semaphores()}
    running: Counter[str] = Counter()
    began: list[str] = []
    lock = threading.Lock()
    ended = threading.Event()
    names = {job.id: job.limits for job in store.fetch(ids).values()}
    done: set[str] = set()
    deadline = time.monotonic() + 600

    def holds(row: JobRow) -> list[str]:
        return [name for name in most if f'"{name}"' in (names[row.id] or "")]

    def work(mine: Store, number: int) -> None:
        while not ended.is_set():
            assert time.monotonic() < deadline, f"{len(done)} of {len(ids)} jobs are done; the others are stuck"
            rows = claim(mine, 1 + number % 3)
            with lock:
                running.update(name for row in rows for name in holds(row))
                began.extend(row.id for row in rows)
                assert all(running[name] <= most[name] for name in most), running
            for row in rows:
                with lock:
                    running.subtract(holds(row))
                if row.attempts == 1 and row.id[-1] in "048c":
                    assert mine.settle([Rollback(row.lease, 0.0)]) != [None]
                    continue
                commit(mine, row)
                with lock:
                    done.add(row.id)
                    if len(done) == len(ids):
                        ended.set()
            if not rows:
                time.sleep(0.002)

    all_at_once([lambda one=one, n=n: work(one, n) for n, one in enumerate(stores)])  # type: ignore[misc]
    return began


class TestRacesForSlots:
    def test_never_more_holders_than_slots(self, store: Store, stores: list[Store]) -> None:
        store.set_semaphore(SMTP, 3)
        store.set_semaphore("api", 2)
        kinds = [(SMTP,), (SMTP, "api"), ("api",), ()]
        ids = push(store, *(limited(*kinds[n % 4]) for n in range(120)))
        run_all(store, stores[:4], ids)
        assert (usage(store), usage(store, "api")) == ((0, 0), (0, 0))
        assert counts_of(store, QUEUE).committed == 120

    def test_of_one_slot_and_many_claimers(self, store: Store, stores: list[Store]) -> None:
        store.set_semaphore(SMTP, 1)
        for _ in range(5):
            push(store, *(limited(SMTP) for _ in range(8)))
            rows: list[JobRow] = []
            all_at_once([lambda one=one, rows=rows: rows.extend(claim(one, 2)) for one in stores])  # type: ignore[misc]
            assert len(rows) == 1
            assert usage(store) == (1, 7)
            store.drop_queue(QUEUE)
            assert usage(store) == (0, 0)

    def test_of_a_release_and_those_who_come_to_wait(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        for _ in range(10):
            push(store, limited(SMTP))
            (row,) = claim(store)
            (waiter,) = push(store, limited(SMTP))
            got: list[str] = []
            all_at_once(
                [
                    lambda row=row: commit(store, row),  # type: ignore[misc]
                    lambda got=got: got.extend(took(other_store)),  # type: ignore[misc]
                ]
            )
            got += took(store)
            assert got == [waiter], "it waits although a slot is free"
            assert usage(store) == (1, 0)
            store.drop_queue(QUEUE)

    def test_of_resizes_and_releases(self, store: Store, stores: list[Store]) -> None:
        store.set_semaphore(SMTP, 2)
        ids = push(store, *(limited(SMTP) for _ in range(60)))

        def resize() -> None:
            for capacity in (4, 1, 3, 0, 2, 5, 1, 4) * 2:
                stores[1].set_semaphore(SMTP, capacity)
                time.sleep(0.005)

        with in_threads([resize]):
            run_all(store, stores[:3], ids, {SMTP: 5})
        assert usage(store) == (0, 0)


class TestWaitingForASlot:
    """A worker hears of a slot that is granted as it hears of a push."""

    def poll(self, store: Store) -> float:
        return LONG if store.capabilities.push_wakeup else 0.5

    def test_ends_when_it_is_granted(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(other_store, 2)
        queue = Stanchion(store=store, poll=self.poll(store)).queue(QUEUE)
        with in_threads([soon(lambda: commit(other_store, row), 0.2)]):
            assert seconds(lambda: len(queue.reserve(wait=LONG)) == 1) < SOON

    def test_ends_in_another_queue(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP, queue="other"), limited(SMTP))
        (row,) = claim(other_store, queue="other")
        assert took(store) == []
        queue = Stanchion(store=store, poll=self.poll(store)).queue(QUEUE)
        with in_threads([soon(lambda: commit(other_store, row), 0.2)]):
            assert seconds(lambda: len(queue.reserve(wait=LONG)) == 1) < SOON

    def test_ends_when_capacity_is_raised(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 0)
        push(store, limited(SMTP))
        assert took(store) == []
        queue = Stanchion(store=store, poll=self.poll(store)).queue(QUEUE)
        with in_threads([soon(lambda: other_store.set_semaphore(SMTP, 1), 0.2)]):
            assert seconds(lambda: len(queue.reserve(wait=LONG)) == 1) < SOON

    def test_is_no_spinning(self, store: Store) -> None:
        store.set_semaphore(SMTP, 0)
        push(store, limited(SMTP), limited(SMTP))
        counting: Any = Counting(store)
        waiting = Stanchion(store=counting, poll=0.2).queue(QUEUE)
        assert waiting.reserve(wait=1.0) == []
        assert 2 <= counting.calls["claim"] <= 12
