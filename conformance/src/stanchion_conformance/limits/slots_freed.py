"""Every end of a holder frees its slot, which goes to the first waiting job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import QUEUED, JobRef, JobRow, JobState, Lease, Redriven
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Outcome, Rollback
from stanchion.stores.rules.lifecycle.jobs import detached
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, claim, new_job, row_of, slot_of, state, worker
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, usage

ENDS: dict[str, Callable[[Lease], Outcome]] = {
    "committed": Commit,
    "failed": lambda lease: Rollback(lease, 100.0, error="no"),
    "given back": lambda lease: Rollback(lease, 100.0, refund=True),
    "buried": lambda lease: Bury(lease, "no"),
    "abandoned": Abandon,
    "moved": lambda lease: Move(lease, "next"),
}


class TestEverySlotIsFreed:
    @pytest.fixture
    def held(self, store: Store) -> JobRow:
        """A job that holds the only slot, with one behind it."""
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(store, 2, lease=30.0)
        assert usage(store) == (1, 1)
        return row

    @pytest.fixture(autouse=True)
    def then_the_next_one_has_it(self, store: Store, held: JobRow) -> Any:
        """Check after each case that the second job can run, alone."""
        yield
        assert usage(store) == (1, 0)
        assert held.id not in slot_of(store, SMTP)[0]
        (row,) = claim(store, 1)
        assert row.id != held.id
        commit(store, row)
        assert usage(store) == (0, 0)

    @pytest.mark.parametrize("end", ENDS)
    def test_by_every_outcome(self, store: Store, held: JobRow, end: str) -> None:
        assert settle(store, ENDS[end](held.lease)) != [None]

    def test_by_the_way_to_the_dead_letters(self, store: Store, held: JobRow) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        settle(store, Bury(held.lease, "no"))
        assert row_of(store, held.id).queue == "letters"

    def test_by_a_cancel(self, store: Store, held: JobRow) -> None:
        store.cancel([held.id])
        assert usage(store) == (1, 1)
        assert settle(store, Rollback(held.lease, 0.0)) == [JobState.CANCELLED]

    def test_by_a_lost_lease(self, store: Store, held: JobRow, clock: StoreClock) -> None:
        clock.advance(31)
        assert [row.id for row in store.recover()] == [held.id]
        assert row_of(store, held.id).slots_held == 0

    def test_of_a_job_that_waits_for_its_retry(self, store: Store, held: JobRow) -> None:
        settle(store, Rollback(held.lease, 600.0, error="no"))
        assert row_of(store, held.id).state == QUEUED


class TestEveryHolderLetsGo:
    def test_the_last_attempt(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, max_attempts=1), limited(SMTP))
        (row,) = claim(store, 2)
        assert settle(store, Rollback(row.lease, 0.0)) == [JobState.DEAD]
        assert slot_of(store, SMTP) == ([ids[1]], [])

    def test_a_claim_finds_what_a_lost_lease_frees(self, store: Store, clock: StoreClock) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP), limited(SMTP))
        claim(store, 2, lease=10.0)
        clock.advance(11)
        assert took(store, 1) == [ids[1]]
        assert took(store, 1) == []
        assert slot_of(store, SMTP) == ([ids[1]], [ids[0]])

    def test_a_dead_worker(self, store: Store, clock: StoreClock) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP), limited(SMTP))
        store.beat([worker("w1")])
        store.beat([worker("w2", heartbeat=1000.0)])
        claim(store, 2, worker="w1")
        clock.advance(60)
        assert [row.id for row in store.recover()] == [ids[0]]
        assert slot_of(store, SMTP)[0] == [ids[1]]

    def test_a_queue_that_is_deleted(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        there = push(store, limited(SMTP, queue="other"))[0]
        push(store, limited(SMTP), limited(SMTP, priority=-1))
        claim(store, 2)
        assert took(store, queue="other") == []
        assert usage(store) == (1, 2)
        store.drop_queue(QUEUE)
        assert slot_of(store, SMTP) == ([there], [])
        assert took(store, queue="other") == [there]

    def test_one_that_has_its_slot_and_does_not_run_yet(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, *(limited(SMTP) for _ in range(3)))
        (row,) = claim(store, 3)
        commit(store, row)
        assert slot_of(store, SMTP) == ([ids[1]], [ids[2]])
        store.cancel([ids[1]])
        assert slot_of(store, SMTP) == ([ids[2]], [])
        assert took(store, 3) == [ids[2]]

    def test_those_that_are_taken_to_another_store_together(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, *(limited(SMTP) for _ in range(4)))
        (row,) = claim(store, 4)
        commit(store, row)
        assert slot_of(store, SMTP) == ([ids[1]], ids[2:])
        answer = store.delete([JobRef(one) for one in ids[1:3]])
        assert answer == [True, True], "the second has been granted what the first has freed"
        assert slot_of(store, SMTP) == ([ids[3]], [])
        assert took(store, 4) == ids[3:]

    def test_one_that_is_replaced_gives_its_slot_up(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP), limited(SMTP, key="k"), limited(SMTP))
        (row,) = claim(store, 3)
        commit(store, row)
        assert slot_of(store, SMTP) == ([ids[1]], [ids[2]])
        store.push([new_job("2", key="k", on_duplicate="replace", delay=600.0, priority=7)])
        assert slot_of(store, SMTP) == ([ids[2]], [])
        replaced = row_of(store, ids[1])
        assert (replaced.payload, replaced.priority, replaced.slots_held) == ("2", 7, 0)
        assert state(store, ids[1]) == JobState.SCHEDULED

    def test_nobody_else_frees_anything(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, *(limited(SMTP) for _ in range(3)))
        (first,) = claim(store, 3)
        commit(store, first)
        (second,) = claim(store, 3)
        for repeat in (False, True, True):
            assert store.settle([Commit(second.lease._replace(token="old"))], repeat=repeat) == [None]
            assert store.settle([Commit(first.lease)], repeat=True) == [JobState.DONE]
            assert usage(store) == (1, 1)
        assert settle(store, Rollback(second.lease, 600.0)) == [JobState.SCHEDULED]
        for _ in range(2):
            answer = store.settle([Rollback(second.lease, 600.0)], repeat=True)
            assert answer == [JobState.SCHEDULED]
            assert usage(store) == (1, 0)


class TestTheLine:
    @pytest.fixture
    def waiters(self, store: Store) -> list[str]:
        """Three jobs behind one that holds the only slot."""
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, key="0"), *(limited(SMTP, key=str(n), priority=n) for n in (-1, -2, -3)))
        (row,) = claim(store, 4)
        assert row.id == ids[0]
        self.holder = row
        assert slot_of(store, SMTP)[1] == ids[1:]
        return ids[1:]

    def test_a_cancelled_job_waits_no_longer(self, store: Store, waiters: list[str]) -> None:
        assert store.cancel([waiters[0]]) == [JobState.CANCELLED]
        assert usage(store) == (1, 2)
        commit(store, self.holder)
        assert took(store, 4) == [waiters[1]]

    def test_a_job_taken_to_another_store_waits_no_longer(self, store: Store, waiters: list[str]) -> None:
        assert store.delete([JobRef(waiters[0]), JobRef(self.holder.id)]) == [True, False]
        assert slot_of(store, SMTP)[1] == waiters[1:]
        commit(store, self.holder)
        assert took(store, 4) == [waiters[1]]

    def test_jobs_of_a_deleted_queue_wait_no_longer(self, store: Store, waiters: list[str]) -> None:
        there = push(store, limited(SMTP, queue="other"))[0]
        assert took(store, queue="other") == []
        assert usage(store) == (1, len(waiters) + 1)
        store.drop_queue(QUEUE)
        assert slot_of(store, SMTP) == ([there], [])

    def test_a_retry_changes_nothing(self, store: Store, waiters: list[str]) -> None:
        before = row_of(store, waiters[1])
        assert store.retry([waiters[1]]) == [Redriven.READY]
        assert row_of(store, waiters[1]) == before
        assert slot_of(store, SMTP)[1] == waiters

    def test_a_replaced_job_goes_to_the_end(self, store: Store, waiters: list[str]) -> None:
        key = row_of(store, waiters[0]).key
        answer = store.push([new_job('"new"', key=key, on_duplicate="replace")])
        assert [(pushed.id, pushed.duplicate) for pushed in answer] == [(waiters[0], True)]
        assert took(store, 4) == []
        assert slot_of(store, SMTP)[1] == [*waiters[1:], waiters[0]]
        assert row_of(store, waiters[0]).payload == '"new"'

    def test_their_keys_are_taken(self, store: Store, waiters: list[str]) -> None:
        answer = store.push([new_job(key=row_of(store, waiters[2]).key)])
        assert [(pushed.id, pushed.duplicate) for pushed in answer] == [(waiters[2], True)]

    def test_a_recovery_and_maintenance_leave_them_alone(
        self, store: Store, waiters: list[str], clock: StoreClock
    ) -> None:
        store.beat([worker("w", heartbeat=1e6)])
        clock.advance(5)
        assert store.recover() == []
        store.maintain()
        assert store.recover(limit=0) == []
        assert slot_of(store, SMTP) == ([self.holder.id], waiters)

    def test_a_push_that_is_repeated_changes_nothing(self, store: Store, waiters: list[str]) -> None:
        store.push([limited(SMTP, id=waiters[0])])
        assert slot_of(store, SMTP)[1] == waiters

    def test_are_moved_to_another_store_as_queued(self, store: Store, waiters: list[str], new_store: NewStore) -> None:
        rows = [detached(row_of(store, job), store.now()) for job in waiters]
        assert {(row.state, row.slots_held, row.waits_for) for row in rows} == {(QUEUED, 0, None)}
        assert {(row.order_hold, row.slots_hold) for row in rows} == {(None, None)}
        assert store.delete([JobRef(one) for one in waiters]) == [True] * 3
        there = new_store()
        there.set_semaphore(SMTP, 1)
        assert there.adopt(rows) == [True] * 3
        commit(store, self.holder)
        assert took(there, 4) == [waiters[0]]
        assert usage(there) == (1, 2)


class TestSlotsTakenAgain:
    """A second life takes its slots like the first."""

    def test_of_a_dead_job(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        dead, other = push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(store)
        settle(store, Bury(row.lease, "no"))
        assert took(store) == [other]
        assert store.retry([dead]) == [Redriven.READY]
        assert took(store) == []
        assert slot_of(store, SMTP) == ([other], [dead])

    def test_of_a_copy(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        (job,) = push(store, limited(SMTP))
        (row,) = claim(store)
        commit(store, row)
        copies = [new_id(), new_id()]
        for copy in copies:
            push_copies(store, [job], [copy])
        assert row_of(store, copies[0]).limits == row_of(store, job).limits
        assert took(store, 2) == copies[:1]
        assert usage(store) == (1, 1)

    def test_of_a_moved_job(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP))
        (row,) = claim(store)
        settle(store, Move(row.lease, "next"))
        assert usage(store) == (0, 0)
        assert took(store, queue="next") == [row.id]
        assert usage(store) == (1, 0)

    def test_of_a_dead_letter_that_waits(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        store.configure(QUEUE, {"dead_letter": "letters"})
        letter, other = push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(store)
        settle(store, Bury(row.lease, "no"))
        assert took(store) == [other]
        assert took(store, queue="letters") == []
        assert row_of(store, letter).state == JobState.WAITING
        assert store.retry([letter]) == [Redriven.READY]
        assert (row_of(store, letter).queue, state(store, letter)) == (QUEUE, JobState.READY)
        assert usage(store) == (1, 0)

    def test_of_adopted_jobs(self, store: Store, new_store: NewStore) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP), limited(SMTP))
        rows = [row_of(store, job)._replace(id=new_id()) for job in took(store, 2)]
        adopted = [detached(row._replace(state=QUEUED, lease_until=None), store.now()) for row in rows]
        assert new_store().adopt(adopted) == [True]
        assert took(store) == []
        assert usage(store) == (1, 2)
