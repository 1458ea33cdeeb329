"""Every slot of a semaphore is freed, whatever becomes of its holder, and goes to the first in line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState, Redriven
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Outcome, Rollback
from stanchion.stores.rules.jobs import detached
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, claim, new_job, row_of, slot_of, state, worker
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, usage

ENDS: dict[str, Callable[[str, str], Outcome]] = {
    "committed": Commit,
    "failed": lambda job, token: Rollback(job, token, 100.0, error="no"),
    "given back": lambda job, token: Rollback(job, token, 100.0, refund=True),
    "buried": lambda job, token: Bury(job, token, "no"),
    "abandoned": Abandon,
    "moved": lambda job, token: Move(job, token, "next"),
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
        assert settle(store, ENDS[end](held.id, held.token or "")) != [None]

    def test_by_the_way_to_the_dead_letters(self, store: Store, held: JobRow) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        settle(store, Bury(held.id, held.token or "", "no"))
        assert row_of(store, held.id).queue == "letters"

    def test_by_a_cancel(self, store: Store, held: JobRow) -> None:
        store.cancel([held.id])
        assert usage(store) == (1, 1)
        assert settle(store, Rollback(held.id, held.token or "", 0.0)) == [JobState.CANCELLED]

    def test_by_a_lost_lease(self, store: Store, held: JobRow, clock: StoreClock) -> None:
        clock.advance(31)
        assert [row.id for row in store.recover()] == [held.id]
        assert row_of(store, held.id).held == 0

    def test_of_a_job_that_waits_for_its_retry(self, store: Store, held: JobRow) -> None:
        settle(store, Rollback(held.id, held.token or "", 600.0, error="no"))
        assert row_of(store, held.id).state == QUEUED


class TestEveryHolderLetsGo:
    def test_the_last_attempt(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, max_attempts=1), limited(SMTP))
        (row,) = claim(store, 2)
        assert settle(store, Rollback(row.id, row.token or "", 0.0)) == [JobState.DEAD]
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
        assert store.take(ids[1:3]) == ids[1:3], "the second has been granted what the first has freed"
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
        assert (replaced.payload, replaced.priority, replaced.held) == ("2", 7, 0)
        assert state(store, ids[1]) == JobState.SCHEDULED

    def test_nobody_else_frees_anything(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, *(limited(SMTP) for _ in range(3)))
        (first,) = claim(store, 3)
        commit(store, first)
        (second,) = claim(store, 3)
        for repeat in (False, True, True):
            assert store.settle([Commit(second.id, "old")], repeat=repeat) == [None]
            assert store.settle([Commit(first.id, first.token or "")], repeat=True) == [JobState.DONE]
            assert usage(store) == (1, 1)
        assert settle(store, Rollback(second.id, second.token or "", 600.0)) == [JobState.SCHEDULED]
        for _ in range(2):
            answer = store.settle([Rollback(second.id, second.token or "", 600.0)], repeat=True)
            assert answer == [JobState.SCHEDULED]
            assert usage(store) == (1, 0)


class TestTheLine:
    @pytest.fixture
    def line(self, store: Store) -> list[str]:
        """Three jobs behind one that holds the only slot."""
        store.set_semaphore(SMTP, 1)
        ids = push(store, limited(SMTP, key="0"), *(limited(SMTP, key=str(n), priority=n) for n in (-1, -2, -3)))
        (row,) = claim(store, 4)
        assert row.id == ids[0]
        self.holder = row
        assert slot_of(store, SMTP)[1] == ids[1:]
        return ids[1:]

    def test_who_is_cancelled_leaves_the_line(self, store: Store, line: list[str]) -> None:
        assert store.cancel([line[0]]) == [JobState.CANCELLED]
        assert usage(store) == (1, 2)
        commit(store, self.holder)
        assert took(store, 4) == [line[1]]

    def test_who_is_taken_to_another_store_leaves_the_line(self, store: Store, line: list[str]) -> None:
        assert store.take([line[0], self.holder.id]) == [line[0]]
        assert slot_of(store, SMTP)[1] == line[1:]
        commit(store, self.holder)
        assert took(store, 4) == [line[1]]

    def test_a_deleted_queue_leaves_the_line(self, store: Store, line: list[str]) -> None:
        there = push(store, limited(SMTP, queue="other"))[0]
        assert took(store, queue="other") == []
        assert usage(store) == (1, len(line) + 1)
        store.drop_queue(QUEUE)
        assert slot_of(store, SMTP) == ([there], [])

    def test_a_retry_changes_nothing(self, store: Store, line: list[str]) -> None:
        before = row_of(store, line[1])
        assert store.retry([line[1]]) == [Redriven.READY]
        assert row_of(store, line[1]) == before
        assert slot_of(store, SMTP)[1] == line

    def test_who_is_replaced_goes_to_the_end(self, store: Store, line: list[str]) -> None:
        key = row_of(store, line[0]).key
        answer = store.push([new_job('"new"', key=key, on_duplicate="replace")])
        assert [(pushed.id, pushed.duplicate) for pushed in answer] == [(line[0], True)]
        assert took(store, 4) == []
        assert slot_of(store, SMTP)[1] == [*line[1:], line[0]]
        assert row_of(store, line[0]).payload == '"new"'

    def test_their_keys_are_taken(self, store: Store, line: list[str]) -> None:
        answer = store.push([new_job(key=row_of(store, line[2]).key)])
        assert [(pushed.id, pushed.duplicate) for pushed in answer] == [(line[2], True)]

    def test_a_recovery_and_maintenance_leave_them_alone(
        self, store: Store, line: list[str], clock: StoreClock
    ) -> None:
        store.beat([worker("w", heartbeat=1e6)])
        clock.advance(5)
        assert store.recover() == []
        store.maintain()
        assert store.recover(limit=0) == []
        assert slot_of(store, SMTP) == ([self.holder.id], line)

    def test_a_push_that_is_repeated_changes_nothing(self, store: Store, line: list[str]) -> None:
        store.push([limited(SMTP, id=line[0])])
        assert slot_of(store, SMTP)[1] == line

    def test_are_moved_to_another_store_as_queued(self, store: Store, line: list[str], new_store: NewStore) -> None:
        rows = [detached(row_of(store, job)) for job in line]
        assert {(row.state, row.held, row.waits_for, row.permit) for row in rows} == {(QUEUED, 0, None, None)}
        assert store.take(line) == line
        there = new_store()
        there.set_semaphore(SMTP, 1)
        assert there.adopt(rows) == [True] * 3
        commit(store, self.holder)
        assert took(there, 4) == [line[0]]
        assert usage(there) == (1, 2)


class TestSlotsTakenAgain:
    """A second life takes its slots like the first."""

    def test_of_a_dead_job(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        dead, other = push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(store)
        settle(store, Bury(dead, row.token or "", "no"))
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
        settle(store, Move(row.id, row.token or "", "next"))
        assert usage(store) == (0, 0)
        assert took(store, queue="next") == [row.id]
        assert usage(store) == (1, 0)

    def test_of_a_dead_letter_that_waits(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        store.configure(QUEUE, {"dead_letter": "letters"})
        letter, other = push(store, limited(SMTP), limited(SMTP))
        (row,) = claim(store)
        settle(store, Bury(letter, row.token or "", "no"))
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
        adopted = [detached(row._replace(state=QUEUED, lease_until=None)) for row in rows]
        assert new_store().adopt(adopted) == [True]
        assert took(store) == []
        assert usage(store) == (1, 2)
