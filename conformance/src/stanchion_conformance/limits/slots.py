"""Slots of semaphores: parked jobs, first come, first served."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Queue
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    QUEUE,
    claim,
    counts_of,
    due_of,
    new_job,
    row_of,
    sizes_of,
    slot_of,
    state,
)
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, took_at_last, usage


class TestSlots:
    def test_no_more_run_than_there_are_slots(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        ids = push(store, *(limited(SMTP) for _ in range(5)))
        assert took(store, 1) == ids[:1]
        assert took(other_store, 5) == ids[1:2]
        assert took(store, 5) == []
        assert usage(other_store) == (2, 3)
        assert sorted(slot_of(store, SMTP)[0]) == sorted(ids[:2])
        assert slot_of(other_store, SMTP)[1] == ids[2:]

    def test_a_parked_job_was_not_delivered(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        _first, second = push(store, limited(SMTP), limited(SMTP))
        claim(store, 2)
        row = row_of(store, second)
        assert (row.state, row.attempts, row.started_at, row.token, row.worker) == (
            *(JobState.WAITING, 0, None, None, None),
        )
        assert row.waits_for == semaphore_slot(SMTP)
        assert counts_of(store, QUEUE).reserved == 1
        assert sizes_of(store, QUEUE)._asdict() == {"total": 2, "ready": 0, "scheduled": 0, "waiting": 1, "running": 1}

    def test_only_what_runs_or_has_run_was_started(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        jobs = push(store, limited(SMTP), limited(SMTP))
        for given_back in ({"refund": True}, {"refund": True}, {"error": "no"}, {"error": "no"}):
            (row,) = claim(store, 2)
            assert row_of(store, row.id).started_at is not None
            settle(store, Rollback(row.lease, 0.0, **given_back))
            assert [row_of(store, job).started_at for job in jobs] == [None, None]
        (row,) = claim(store, 2)
        waiting = next(job for job in jobs if job != row.id)
        assert (row_of(store, waiting).state, row_of(store, waiting).started_at) == (JobState.WAITING, None)
        commit(store, row)
        assert row_of(store, row.id).started_at == row.started_at

    def test_parked_jobs_are_not_due(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP), limited(SMTP))
        claim(store, 2)
        assert due_of(store, QUEUE) is None
        assert store.lane_depths(QUEUE) == {}

    def test_others_are_handed_out_beside_them(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        parked, first, plain = push(store, limited(SMTP), limited(SMTP, priority=5), new_job(priority=-5))
        assert took(store, 5) == [first, plain]
        assert state(store, parked) == JobState.WAITING

    def test_a_release_grants_the_slot_at_once(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, *(limited(SMTP) for _ in range(3)))
        (row,) = claim(store, 3)
        commit(store, row)
        assert usage(other_store) == (1, 1)
        assert slot_of(other_store, SMTP) == ([ids[1]], [ids[2]])
        assert state(store, ids[1]) == JobState.READY
        assert took(other_store, 3) == [ids[1]]
        assert usage(store) == (1, 1)

    def test_the_line_is_first_come(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP))
        (running,) = claim(store)
        came = []
        for priority in (-5, 0, 5):
            came += push(store, limited(SMTP, priority=priority))
            assert took(store, 5) == []
        assert slot_of(store, SMTP)[1] == came
        served = []
        for _ in came:
            commit(store, running)
            (running,) = claim(store, 5)
            served.append(running.id)
        assert served == came

    def test_who_holds_a_slot_goes_first(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        _, waiter = push(store, limited(SMTP), limited(SMTP, priority=-100))
        (row,) = claim(store, 2)
        plain = push(store, new_job(priority=100))[0]
        commit(store, row)
        (next_one,) = claim(store)
        assert (next_one.id, next_one.priority) == (waiter, -100)
        assert took(store) == [plain]

    def test_is_shared_by_queues(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP))
        there = push(store, limited(SMTP, queue="other"))[0]
        (row,) = claim(store)
        assert took(store, queue="other") == []
        commit(store, row)
        assert took(store) == []
        assert took(store, queue="other") == [there]

    def test_raised_wakes_and_lowered_drains(self, store: Store, other_store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, *(limited(SMTP) for _ in range(6)))
        running = claim(store, 6)
        other_store.set_semaphore(SMTP, 3)
        assert usage(store) == (3, 3)
        running += claim(store, 6)
        assert len(running) == 3
        store.set_semaphore(SMTP, 1)
        for row, held in zip(running, (2, 1, 1), strict=True):
            commit(other_store, row)
            assert usage(store)[0] == held
        assert len(claim(store, 6)) == 1
        assert [row.capacity for row in store.semaphores()] == [1]

    def test_with_capacity_0_it_is_closed(self, store: Store) -> None:
        store.set_semaphore(SMTP, 0)
        job = push(store, limited(SMTP))[0]
        assert took(store) == []
        assert usage(store) == (0, 1)
        store.set_semaphore(SMTP, 1)
        assert took(store) == [job]

    def test_one_unknown_to_the_store_has_one_slot(self, store: Store) -> None:
        ids = push(store, limited("foreign"), limited("foreign"))
        (row,) = claim(store, 2)
        assert row.id == ids[0]
        commit(store, row)
        assert took(store, 2) == [ids[1]]

    def test_a_pop_waits_for_a_slot_like_any_claim(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        ids = push(store, *(limited(SMTP) for _ in range(3)))
        assert [row.id for row in pop(store, Claim(QUEUE, 1, new_id())).rows] == [ids[0]]
        assert usage(store) == (0, 0)
        (row,) = claim(store)
        assert pop(store, Claim(QUEUE, 1, new_id())).rows == []
        assert usage(store) == (1, 1)
        commit(store, row)
        assert [row.id for row in pop(store, Claim(QUEUE, 1, new_id())).rows] == [ids[2]]
        assert usage(store) == (0, 0)

    def test_a_job_that_is_not_handed_out_after_all_holds_no_more_than_before(self, store: Store) -> None:
        for name, capacity in {"a": 1, "b": 3, "c": 1}.items():
            store.set_semaphore(name, capacity)
        push(store, limited("a", "c", priority=2))
        both, free, later = push(
            store, limited("a", "b", "c", priority=1), limited("c", priority=0), limited("a", "b", priority=-1)
        )
        (row,) = claim(store, 4)
        store.set_semaphore("a", 2)
        commit(store, row)
        assert slot_of(store, "a") == ([both, later], [])
        assert took(store) == [free], "the first of them waits for c, and the last one comes after the limit"
        assert (slot_of(store, "b"), slot_of(store, "c")) == (([both], []), ([free], [both]))
        assert took(store, 3) == [later]
        assert slot_of(store, "b") == ([both, later], [])

    @pytest.mark.parametrize("limit", [{"max_running": 1}, {"max_rate": 0.001}, {"paused": True}])
    def test_a_claim_that_may_not_take_any_parks_none(self, store: Store, limit: dict[str, Any]) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP), limited(SMTP))
        claim(store)
        store.configure(QUEUE, {"max_rate": None, **limit})
        if "max_rate" in limit:
            push(store, new_job(priority=9))
            claim(store)
        assert took(store, 5) == []
        assert usage(store) == (1, 0)

    def test_parked_jobs_use_up_no_rate_and_no_place(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        store.configure(QUEUE, {"max_running": 2, "max_rate": 1000.0})
        ids = push(store, limited(SMTP), limited(SMTP), limited(SMTP), new_job())
        assert took(store, 2) == [ids[0], ids[3]]

    def test_in_the_lanes_of_a_queue(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        store.configure(QUEUE, {"lanes": 4, "lanes_per_tenant": 1, "uses_lanes": True})
        ids = push(store, *(limited(SMTP, lane=lane) for lane in (1, 2, 3)), new_job(lane=4))
        (row, plain) = claim(store, 4)
        assert (row.id, plain.id) == (ids[0], ids[3])
        served = []
        for _ in range(2):
            commit(store, row)
            (row,) = claim(store, 4)
            served.append(row.id)
        assert sorted(served) == sorted(ids[1:3])

    @pytest.mark.parametrize("lanes", [1, 4])
    def test_hundreds_that_wait_keep_their_order(self, store: Store, lanes: int) -> None:
        store.set_semaphore(SMTP, 1)
        store.configure(QUEUE, {"lanes": lanes, "uses_lanes": lanes > 1})
        lane = 1 if lanes > 1 else UNLANED
        ids = push(store, *(limited(SMTP, lane=lane) for _ in range(600)))
        plain = push(store, new_job(lane=lane))
        (row,) = claim(store)
        for _ in range(3):
            assert row.id == ids.pop(0)
            (free,) = took_at_last(store, 1) or plain
            assert free == plain[0]
            plain = push(store, new_job(lane=lane))
            commit(store, row)
            (row,) = claim(store)
        assert took_at_last(store, 1) == plain
        assert took_at_last(store, 1) == []
        assert slot_of(store, SMTP)[1] == ids[1:]

    @pytest.mark.parametrize("pops", [False, True])
    def test_a_call_goes_on_where_a_claim_breaks_off(
        self, q: Queue, monkeypatch: pytest.MonkeyPatch, pops: bool
    ) -> None:
        monkeypatch.setattr("stanchion.stores.cas.claim.CLAIM_SECONDS", 0.0)
        store = context_of(q).store
        store.set_semaphore(SMTP, 0)
        push(store, *(limited(SMTP) for _ in range(5)))
        (free,) = push(store, new_job())
        found = q.pop() if pops else q.reserve()[0]
        assert found is not None
        assert found.id == free

    def test_thousands_behind_a_full_one_cost_nobody_anything(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, limited(SMTP, priority=1))
        (row,) = claim(store)
        for _ in range(5):
            push(store, *(limited(SMTP) for _ in range(1000)))
        plain = push(store, new_job(priority=-1))
        assert took_at_last(store, 3) == plain
        assert took_at_last(store, 3) == []
        assert sizes_of(store, QUEUE).waiting == 5000
        for _ in range(3):
            plain = push(store, new_job())
            assert took(store) == plain
        commit(store, row)
        assert len(claim(store, 10)) == 1
