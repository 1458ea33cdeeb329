"""Semaphores: a capacity, its holders, and a first-come line."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, Push, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Outcome, Rollback
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.limits import Limits, Rate, limits_text
from stanchion.stores.rules.slots import semaphore_gate
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    LONG_LEASE,
    QUEUE,
    claim,
    counts_of,
    due_of,
    new_job,
    payloads,
    row_of,
    sizes_of,
    slot_of,
    state,
)
from stanchion_conformance.operate.wakeup import Counting

SMTP = "smtp"


def limited(*semaphores: str, rate: Rate | None = None, **fields: Any) -> NewJob:
    """Return a job that needs these semaphores."""
    return new_job(limits=limits_text(Limits(semaphores, rate)), **fields)


def push(store: Store, *jobs: NewJob) -> list[str]:
    """Store jobs and return their ids."""
    store.push(jobs)
    return [job.id for job in jobs]


def took(store: Store, limit: int = 1, **fields: Any) -> list[str]:
    """Reserve jobs and return their ids."""
    return [row.id for row in claim(store, limit, **fields)]


def took_at_last(store: Store, limit: int, calls: int = 10) -> list[str]:
    """Reserve jobs behind very many that are kept back; a store may break off, and say that it is to be asked again."""
    for _ in range(calls):
        claimed = store.claim(Claim(QUEUE, limit, new_id(), lease=LONG_LEASE))
        if claimed.rows or claimed.retry_in != 0:
            return [row.id for row in claimed.rows]
    raise AssertionError(f"not one job in {calls} claims")


def usage(store: Store, name: str = SMTP) -> tuple[int, int]:
    """Return how many jobs hold a semaphore and how many wait for it, as both ways to ask must tell."""
    holders, line = slot_of(store, name)
    (row,) = store.semaphores([name])
    assert (row.held, row.waiting) == (len(holders), len(line))
    return len(holders), len(line)


def settle(store: Store, *outcomes: Outcome) -> list[JobState | None]:
    """Apply outcomes that are the first under their tokens."""
    return store.settle(outcomes)


def commit(store: Store, row: JobRow) -> None:
    """Commit a reservation that is in force."""
    assert settle(store, Commit(row.id, row.token or "")) == [JobState.DONE]


class TestSemaphores:
    """What the model makes of them."""

    def test_declared_in_code_is_stored_at_the_first_use(self, app: Stanchion, q: Queue, store: Store) -> None:
        app.semaphore(SMTP, capacity=2)
        assert store.semaphores() == []
        q.push(1, limits=[SMTP])
        assert store.semaphores() == [SemaphoreRow(SMTP, 2)]

    def test_are_read_by_name(self, app: Stanchion, store: Store, other_store: Store) -> None:
        for capacity, name in enumerate(("b", "a", "é", "B"), 1):
            store.set_semaphore(name, capacity)
        app.queue(QUEUE).push_many([Push(n, limits=["b", "a"]) for n in range(3)])
        claim(store, worker="w")
        assert other_store.semaphores(["b"]) == [SemaphoreRow("b", 1, 1)]
        assert claim(store, 5, worker="w") == []
        found = [SemaphoreRow("a", 2, 2, 1), SemaphoreRow("b", 1, 1, 1), SemaphoreRow("é", 3)]
        assert other_store.semaphores(("é", "unknown", "b", "a", "b")) == found
        assert store.semaphores([]) == store.semaphores(["unknown"]) == []
        assert [(row.name, row.capacity) for row in store.semaphores()] == [("B", 4), ("a", 2), ("b", 1), ("é", 3)]

    def test_declared_by_one_process_serves_all(self, app: Stanchion, other_app: Stanchion, q: Queue) -> None:
        app.semaphore(SMTP, capacity=2)
        q.push(1, limits=[SMTP])
        assert other_app.semaphore(SMTP).capacity == 2
        other_app.queue(QUEUE).push(2, limits=[SMTP])
        assert [semaphore.name for semaphore in other_app.semaphores()] == [SMTP]

    def test_one_that_nobody_knows_is_an_error(self, app: Stanchion, q: Queue, store: Store) -> None:
        nobodys = app.semaphore("nobodys")
        for ask in (lambda: nobodys.capacity, nobodys.holders, nobodys.waiting, lambda: nobodys.resize(3)):
            with pytest.raises(InvalidInput, match=r"app\.semaphore\('nobodys', capacity="):
                ask()
        with pytest.raises(InvalidInput, match=r"app\.semaphore\('nobodys', capacity="):
            q.push_many([1, Push(2, limits=["nobodys"])])
        assert sizes_of(store, QUEUE).total == 0

    def test_enqueuing_asks_the_store_once(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        counting: Any = Counting(store)
        queue = Stanchion(store=counting).queue(QUEUE)
        for number in range(20):
            queue.push(number, limits=[SMTP])
        assert counting.calls["semaphores"] == 1
        assert counting.calls["set_semaphore"] == 0

    def test_what_another_has_resized_stays(self, app: Stanchion, other_app: Stanchion, q: Queue) -> None:
        app.semaphore(SMTP, capacity=2)
        q.push(1, limits=[SMTP])
        other_app.semaphore(SMTP).resize(5)
        q.push(2, limits=[SMTP])
        assert app.semaphore(SMTP, capacity=2).capacity == 5, "this process has said so before"
        assert app.semaphore(SMTP, capacity=3).capacity == 3

    @pytest.mark.parametrize("capacity", [-1, 1.5, True, "3", 1_000_001])
    def test_a_capacity_is_a_whole_number(self, app: Stanchion, store: Store, capacity: Any) -> None:
        with pytest.raises(InvalidInput, match="whole number"):
            app.semaphore(SMTP, capacity=capacity)
        store.set_semaphore(SMTP, 1)
        with pytest.raises(InvalidInput, match="whole number"):
            app.semaphore(SMTP).resize(capacity)
        assert app.semaphore(SMTP).capacity == 1

    @pytest.mark.parametrize("limits", [SMTP, [1], [""], ["x" * 201], [str(n) for n in range(17)], 5, {"smtp": 1}])
    def test_limits_are_a_few_names(self, q: Queue, limits: Any) -> None:
        with pytest.raises(InvalidInput, match=r"limits"):
            q.push(1, limits=limits)

    def test_holders_and_the_line_are_jobs(self, app: Stanchion, q: Queue) -> None:
        semaphore = app.semaphore(SMTP, capacity=2)
        q.push_many([Push(number, limits=[SMTP, SMTP]) for number in range(5)])
        first, second = q.reserve(5)
        assert [type(job) for job in semaphore.holders()] == [Job, Job]
        assert sorted(payloads(semaphore.holders())) == [0, 1]
        assert payloads(semaphore.waiting()) == [2, 3, 4]
        assert payloads(semaphore.waiting(limit=2)) == [2, 3]
        assert len(semaphore.holders(limit=1)) == 1
        first.commit()
        second.commit()
        assert sorted(payloads(semaphore.holders())) == [2, 3]

    def test_of_a_task(self, app: Stanchion) -> None:
        app.semaphore(SMTP, capacity=1)

        @app.task(name="send", queue=QUEUE, limits=[SMTP])
        def send(number: int) -> None: ...

        send.enqueue(1)
        send.using(limits=[]).enqueue(2)
        send.enqueue(3)
        assert payloads(app.queue(QUEUE).reserve(5)) == [{"args": [1]}, {"args": [2]}]
        assert payloads(app.semaphore(SMTP).waiting()) == [{"args": [3]}]

    def test_a_job_shows_its_own_priority(self, app: Stanchion, q: Queue) -> None:
        app.semaphore(SMTP, capacity=1)
        q.push_many([Push(number, limits=[SMTP], priority=-3) for number in range(2)])
        (first, *_) = q.reserve(2)
        first.commit()
        (second,) = app.semaphore(SMTP).holders()
        assert (second.state, second.priority) == (JobState.READY, -3)

    def test_in_a_test_it_is_declared_anew(self, app: Stanchion, q: Queue) -> None:
        app.semaphore(SMTP, capacity=1)
        q.push(1, limits=[SMTP])
        with app.testing():
            q.push_many([Push(number, limits=[SMTP]) for number in range(2)])
            assert (app.semaphore(SMTP).capacity, len(q.reserve(2))) == (1, 1)
        assert app.semaphore(SMTP).usage().held == 0

    def test_drains_here_and_now(self, app: Stanchion) -> None:
        app.semaphore(SMTP, capacity=1)
        ran: list[int] = []

        @app.task(name="note", queue=QUEUE)
        def note(number: int) -> None:
            ran.append(number)

        note.using(limits=[SMTP], order_key="k").enqueue_many([(number,) for number in range(5)])
        app.drain()
        assert ran == list(range(5))


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
        assert row.waits_for == semaphore_gate(SMTP)
        assert counts_of(store, QUEUE).reserved == 1
        assert sizes_of(store, QUEUE)._asdict() == {"total": 2, "ready": 0, "scheduled": 0, "waiting": 1, "running": 1}

    def test_only_what_runs_or_has_run_was_started(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        jobs = push(store, limited(SMTP), limited(SMTP))
        for given_back in ({"refund": True}, {"refund": True}, {"error": "no"}, {"error": "no"}):
            (row,) = claim(store, 2)
            assert row_of(store, row.id).started_at is not None
            settle(store, Rollback(row.id, row.token or "", 0.0, **given_back))
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

    def test_popped_jobs_take_their_turn(self, store: Store) -> None:
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
        store.configure(QUEUE, {"lanes": 4, "lanes_per_tenant": 1, "laned": True})
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
        store.configure(QUEUE, {"lanes": lanes, "laned": lanes > 1})
        lane = 1 if lanes > 1 else 0
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
        store = q.context.store
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
