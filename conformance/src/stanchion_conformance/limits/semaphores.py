"""Semaphores: a capacity, its holders, and waiting jobs, first come, first served."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, Push, Queue, Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Outcome
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion_conformance.harness import (
    LONG_LEASE,
    QUEUE,
    claim,
    new_job,
    payloads,
    sizes_of,
    slot_of,
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
    """Reserve jobs behind very many parked ones; a store may end a claim early, and ask for another."""
    for _ in range(calls):
        claimed = store.claim(Claim(QUEUE, limit, new_id(), lease=LONG_LEASE))
        if claimed.rows or claimed.retry_in != 0:
            return [row.id for row in claimed.rows]
    raise AssertionError(f"not one job in {calls} claims")


def usage(store: Store, name: str = SMTP) -> tuple[int, int]:
    """Return the numbers of holders and waiters of a semaphore, after a check that both queries agree."""
    holders, waiters = slot_of(store, name)
    (row,) = store.semaphores([name])
    assert (row.held, row.waiting) == (len(holders), len(waiters))
    return len(holders), len(waiters)


def settle(store: Store, *outcomes: Outcome) -> list[JobState | None]:
    """Apply outcomes that are the first under their tokens."""
    return store.settle(outcomes)


def commit(store: Store, row: JobRow) -> None:
    """Commit a valid reservation."""
    assert settle(store, Commit(row.lease)) == [JobState.DONE]


class TestSemaphores:
    """Semaphores as the model offers them."""

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
        for ask in (lambda: nobodys.capacity, nobodys.holders, nobodys.blocked, lambda: nobodys.resize(3)):
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
        assert payloads(semaphore.blocked()) == [2, 3, 4]
        assert payloads(semaphore.blocked(limit=2)) == [2, 3]
        assert len(semaphore.holders(limit=1)) == 1
        first.commit()
        second.commit()
        assert sorted(payloads(semaphore.holders())) == [2, 3]

    def test_the_first_who_waits_is_found_without_counting_the_others(
        self, app: Stanchion, q: Queue, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        semaphore = app.semaphore(SMTP, capacity=1)
        q.push_many([Push(number, limits=[SMTP]) for number in range(3)])
        q.reserve(3)
        monkeypatch.setattr(store, "semaphores", lambda _names: 1 / 0)
        assert payloads(semaphore.blocked(limit=1)) == [1]
        assert payloads(semaphore.holders(limit=1)) == [0]

    def test_of_a_task(self, app: Stanchion) -> None:
        app.semaphore(SMTP, capacity=1)

        @app.task(name="send", queue=QUEUE, limits=[SMTP])
        def send(number: int) -> None: ...

        send.enqueue(1)
        send.using(limits=[]).enqueue(2)
        send.enqueue(3)
        assert payloads(app.queue(QUEUE).reserve(5)) == [{"args": [1]}, {"args": [2]}]
        assert payloads(app.semaphore(SMTP).blocked()) == [{"args": [3]}]

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
