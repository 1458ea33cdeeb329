"""Many waiting jobs before a few that may run: a claim finds the few, and the others keep their order."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion_conformance.harness import LONG_LEASE, QUEUE, claim, new_job, sizes_of, slot_of
from stanchion_conformance.jobs.ordering import back, keyed
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, took

WAITING = 400
CALLS = 10
"""So many claims a store may take to come to the free jobs: each that breaks off says so."""


def claimed(store: Store, limit: int) -> list[str]:
    """Reserve jobs, in as many claims as the store asks for."""
    found: list[str] = []
    for _ in range(CALLS):
        answer = store.claim(Claim(QUEUE, limit - len(found), new_id(), lease=LONG_LEASE))
        found += [row.id for row in answer.rows]
        if len(found) == limit or answer.retry_in != 0:
            return found
    raise AssertionError(f"{len(found)} of {limit} jobs after {CALLS} claims")


def held_up(store: Store, kind: str, waiting: int = WAITING) -> tuple[JobRow, list[str]]:
    """Let a job hold the only slot, or an order key, and many wait for it; return it and the ids of the others."""
    store.set_semaphore(SMTP, 1)
    given: Any = limited if kind == "semaphore" else keyed
    name = SMTP if kind == "semaphore" else "k"
    push(store, given(name))
    (holder,) = claim(store)
    return holder, push(store, *(given(name) for _ in range(waiting)))


class TestManyWaiting:
    @pytest.mark.parametrize("kind", ["semaphore", "order key"])
    def test_free_jobs_behind_those_that_wait(self, store: Store, kind: str) -> None:
        store.set_semaphore("other", 1)
        holder, waiters = held_up(store, kind)
        free = push(store, new_job(), limited("other"), keyed("other"))
        assert claimed(store, 3) == free
        assert claimed(store, 3) == []
        assert sizes_of(store, QUEUE).waiting == WAITING
        for job in waiters[:3]:
            commit(store, holder)
            (holder,) = claim(store, 2)
            assert holder.id == job

    @pytest.mark.parametrize("kind", ["semaphore", "order key"])
    def test_further_free_jobs_while_those_are_parked(self, store: Store, kind: str) -> None:
        holder, waiters = held_up(store, kind)
        for _ in range(3):
            free = push(store, new_job(), new_job())
            assert claimed(store, 2) == free
        assert claimed(store, 1) == []
        assert sizes_of(store, QUEUE).waiting == WAITING
        for job in waiters[:3]:
            commit(store, holder)
            (holder,) = claim(store, 2)
            assert holder.id == job

    @pytest.mark.parametrize("kind", ["semaphore", "order key"])
    def test_the_first_of_them_when_there_is_a_slot_before_all_are_parked(self, store: Store, kind: str) -> None:
        holder, waiters = held_up(store, kind)
        free = push(store, new_job(), new_job())
        assert claimed(store, 1) == free[:1]
        for job in waiters[:3]:
            commit(store, holder)
            (holder,) = claim(store)
            assert holder.id == job
        assert claimed(store, 1) == free[1:]

    @pytest.mark.parametrize("kind", ["semaphore", "order key"])
    def test_a_few_are_parked_at_once(self, store: Store, kind: str) -> None:
        """A query shows them as waiting, although the claim has found others behind them."""
        holder, waiters = held_up(store, kind, 9)
        free = push(store, new_job(), new_job())
        assert took(store, 2) == free
        assert sizes_of(store, QUEUE).waiting == len(waiters)
        assert all(row.waits_for for row in store.fetch(waiters).values())
        commit(store, holder)
        assert claimed(store, 1) == waiters[:1]

    def test_who_holds_its_key_is_not_passed_over(self, store: Store) -> None:
        push(store, keyed())
        (holder,) = claim(store)
        back(store, holder)
        push(store, *(keyed(priority=9) for _ in range(WAITING)))
        free = push(store, new_job())
        assert claimed(store, 2) == [holder.id, *free]

    def test_all_of_them_wait_in_their_order(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        held = push(store, *(limited(SMTP) for _ in range(2)))
        assert took(store, 2) == held
        waiters = push(store, *(limited(SMTP) for _ in range(WAITING)))
        assert claimed(store, 5) == []
        assert slot_of(store, SMTP) == (sorted(held), waiters)
