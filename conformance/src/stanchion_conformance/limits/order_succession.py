"""Order keys: the next job when the first ends, moves, or comes back."""

from __future__ import annotations

import pytest

from stanchion.core.ids import new_id
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, Lease, Redriven
from stanchion.stores.records.outcomes import Bury, Commit, Move
from stanchion.stores.rules.lifecycle.jobs import detached
from stanchion.waits.pop import pop
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, claim, new_job, row_of, state
from stanchion_conformance.jobs.ordering import KEY, back, keyed
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took
from stanchion_conformance.limits.slots_freed import ENDS


class TestTheNextOfAKey:
    def held(self, store: Store) -> tuple[JobRow, str]:
        """Return a running job, and the next one of its key, which waits."""
        _, second = push(store, keyed(), keyed())
        (row,) = claim(store, 2)
        assert state(store, second) == JobState.WAITING
        return row, second

    @pytest.mark.parametrize("end", ["committed", "buried", "abandoned", "moved"])
    def test_when_the_first_ends(self, store: Store, end: str) -> None:
        row, second = self.held(store)
        settle(store, ENDS[end](row.lease))
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
        settle(store, Bury(row.lease, "no"))
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
            assert store.delete([JobRef(first)]) == [True]
        else:
            clock.advance(101)
            assert [row.id for row in pop(store, Claim(QUEUE, 1, new_id())).rows] == [first]
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
        settle(store, Move(row.lease, "next"))
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
            assert store.settle([Commit(Lease(QUEUE, second, "old"))], repeat=repeat) == [None]
            store.settle([Commit(row.lease)], repeat=True)
            assert took(store) == []
        commit(store, running)
        assert took(store) == [third]


class TestInASecondLife:
    def test_a_dead_first_goes_first_again(self, store: Store) -> None:
        ids = push(store, *(keyed() for _ in range(3)))
        (row,) = claim(store, 3)
        settle(store, Bury(row.lease, "no"))
        (second,) = claim(store, 3)
        assert second.id == ids[1]
        assert store.retry([ids[0]]) == [Redriven.READY]
        assert took(store, 3) == [], "one at a time"
        commit(store, second)
        (first,) = claim(store, 3)
        assert first.id == ids[0], "it was enqueued before the third"
        commit(store, first)
        assert took(store, 3) == [ids[2]]

    def test_a_retry_is_due_at_once_and_still_first(self, store: Store) -> None:
        first, second = push(store, keyed(), keyed())
        (row,) = claim(store, 2)
        back(store, row, 600.0)
        store.retry([first])
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store) == [second]

    def test_those_behind_the_first_are_not_parked_before_a_claim_meets_them(
        self, store: Store, clock: StoreClock
    ) -> None:
        first, second, third = push(store, *(keyed(delay=600.0) for _ in range(3)))
        store.cancel([second])
        assert store.retry([second]) == [Redriven.READY]
        clock.advance(601)  # the second stands at the front of the queue, but the first is the head of line
        assert took(store) == [first]
        assert [state(store, job) for job in (second, third)] == [JobState.WAITING, JobState.READY]

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
        push_copies(store, [ids[0]], [copy])
        (row,) = claim(store, 2)
        assert row.id == ids[1]
        commit(store, row)
        assert took(store) == [copy]

    def test_adopted_jobs_keep_their_order(self, store: Store, new_store: NewStore) -> None:
        ids = push(store, *(keyed(priority=n) for n in range(3)))
        (row,) = claim(store, 3)
        back(store, row, 0.0)
        rows = [detached(row_of(store, job), store.now()) for job in ids]
        assert all(store.delete([JobRef(one) for one in ids]))
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
        store.delete([JobRef(older.id)])
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
