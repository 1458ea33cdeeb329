"""`recover` restores more than lost jobs: a job that waits while a slot is free, whatever the cause."""

from __future__ import annotations

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import order_slot, semaphore_slot, waits_at
from stanchion_conformance.harness import QUEUE, claim, new_job, slot_of, state
from stanchion_conformance.jobs.ordering import KEY, keyed
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, took, usage


def forgotten(job: NewJob, slot: Slot) -> NewJob:
    """Return a job that is stored as a waiter for a slot, though no claim has parked it there."""
    return job._replace(**waits_at(slot))


class TestRepair:
    def test_a_waiter_at_a_semaphore_with_a_free_slot_goes_on(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        first, second, third = push(store, *(forgotten(limited(SMTP), semaphore_slot(SMTP)) for _ in range(3)))
        assert took(store, 3) == []
        assert store.recover() == []
        rows = claim(store, 3)
        assert [row.id for row in rows] == [first, second]
        assert usage(store) == (2, 1)
        commit(store, rows[0])
        assert store.recover() == []
        assert took(store, 3) == [third]

    def test_a_waiter_of_an_order_key_that_nobody_holds_goes_on(self, store: Store) -> None:
        first, second = push(store, *(forgotten(keyed(), order_slot(QUEUE, KEY)) for _ in range(2)))
        assert took(store, 2) == []
        assert store.recover() == []
        (row,) = claim(store, 2)
        assert row.id == first
        assert state(store, second) == JobState.WAITING
        commit(store, row)
        assert store.recover() == []
        assert took(store, 2) == [second]

    def test_the_line_at_a_full_semaphore_stays(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        first, *waiters = push(store, *(limited(SMTP) for _ in range(3)))
        (row,) = claim(store, 3)
        push(store, new_job())
        for _ in range(2):
            assert store.recover() == []
            assert slot_of(store, SMTP) == ([first], waiters)
        commit(store, row)
        assert store.recover() == []
        assert slot_of(store, SMTP) == ([waiters[0]], waiters[1:])

    def test_the_line_behind_an_order_key_stays(self, store: Store) -> None:
        first, second, third = push(store, keyed(), keyed(), keyed())
        (row,) = claim(store, 3)
        for _ in range(2):
            assert store.recover() == []
            assert [state(store, job) for job in (first, second, third)] == ["running", "waiting", "waiting"]
        commit(store, row)
        assert store.recover() == []
        assert took(store, 3) == [second]
