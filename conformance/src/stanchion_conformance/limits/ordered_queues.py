"""Ordered queues: one job at a time, and none before the one that was begun last has left the queue."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion
from stanchion.errors import InvalidInput
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, Redriven
from stanchion.stores.records.outcomes import Bury, Commit, Move, Rollback
from stanchion.stores.rules.lifecycle.jobs import detached
from stanchion_conformance.harness import (
    QUEUE,
    NewStore,
    StoreClock,
    all_at_once,
    claim,
    new_job,
    payloads,
    row_of,
    state,
    worker,
)

ORDERED: dict[str, Any] = {"ordered": True, "max_running": 1}
"""The changes of `configure(ordered=True)`."""


def run(store: Store, queue: str = QUEUE) -> list[str]:
    """Claim and commit until nothing is due; return the ids in order."""
    done: list[str] = []
    while rows := claim(store, 10, queue=queue):
        assert len(rows) == 1
        assert store.settle([Commit(rows[0].lease)]) == [JobState.DONE]
        done.append(rows[0].id)
    return done


def back(store: Store, row: JobRow, delay: float) -> JobState | None:
    """Give a job back after a failure."""
    return store.settle([Rollback(row.lease, delay, "no")])[0]


class TestOrderedQueues:
    @pytest.fixture
    def line(self, q: Queue) -> Queue:
        q.configure(ordered=True)
        return q

    def test_the_setting(self, q: Queue, other_q: Queue) -> None:
        assert q.configure(ordered=True).max_running == 1
        assert other_q.settings.ordered
        assert other_q.settings.shape == "limited"
        assert q.configure(ordered=False).max_running is None
        assert not other_q.settings.ordered

    def test_one_at_a_time_in_the_order_of_the_queue(self, line: Queue) -> None:
        line.push_many([Push("low", priority=-1), *range(3), Push("high", priority=1), Push("later", delay=60)])
        got = []
        while jobs := line.reserve(5):
            assert line.reserve(5) == []
            got += payloads(jobs)
            jobs[0].commit()
        assert got == ["high", 0, 1, 2, "low"]

    def test_a_job_that_awaits_its_retry_holds_back_the_rest(self, line: Queue, clock: StoreClock) -> None:
        line.push_many(["first", Push("second", priority=0), "third"])
        (first,) = line.reserve(3)
        first.rollback(delay=60, error="no")
        line.push("urgent", priority=100)
        assert line.reserve(3) == []
        assert line.pop() is None
        clock.advance(59)
        assert line.reserve(3) == []
        clock.advance(1.1)
        (again,) = line.reserve(3)
        assert (again.payload, again.attempt) == ("first", 2)
        again.commit()
        assert payloads(line.reserve(3)) == ["urgent"]

    def test_a_claim_tells_when_the_head_is_due(self, line: Queue, store: Store, clock: StoreClock) -> None:
        line.push_many([1, 2])
        line.reserve()[0].rollback(delay=60)
        found = store.claim(Claim(QUEUE, 5, "asking"))
        assert found.rows == []
        assert found.retry_in is None or 50 < found.retry_in <= 60
        clock.advance(61)
        assert payloads(line.reserve()) == [1]

    def test_a_snooze_and_a_job_given_back_hold_it_too(self, line: Queue, clock: StoreClock) -> None:
        line.push_many([1, 2])
        line.reserve()[0].release(delay=30)
        assert line.reserve() == []
        clock.advance(31)
        line.reserve()[0].release()
        assert payloads(line.reserve()) == [1]

    @pytest.mark.parametrize("how", ["committed", "buried", "moved", "cancelled", "abandoned"])
    def test_the_next_one_follows_once_the_first_is_gone(self, line: Queue, how: str) -> None:
        line.push_many(["first", "second"])
        (job,) = line.reserve(2)
        match how:
            case "committed":
                job.commit()
            case "buried":
                job.bury("no")
            case "moved":
                job.move("elsewhere")
            case "abandoned":
                job.rollback(delay=60)
                line.cancel(job.id)
            case "cancelled":
                line.cancel(job.id)
                job.rollback()
        assert payloads(line.reserve(2)) == ["second"]

    def test_a_lost_lease_keeps_the_order(self, line: Queue, store: Store, clock: StoreClock) -> None:
        line.push_many([1, 2])
        line.reserve(lease=10)
        line.push("urgent", priority=9)
        clock.advance(11)
        store.recover()
        assert payloads(line.reserve(2)) == [1]

    def test_a_dead_worker_keeps_the_order(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, ORDERED)
        first, second = new_job(), new_job(priority=5)
        store.push([first])
        store.beat([worker("w")])
        assert len(claim(store, worker="w")) == 1
        store.push([second])
        clock.advance(60)
        store.beat([worker("v")])
        store.recover()
        assert run(store) == [first.id, second.id]

    def test_a_retry_of_the_waiting_head_is_due_now(self, line: Queue, store: Store) -> None:
        line.push_many([1, 2])
        (job,) = line.reserve()
        job.rollback(delay=600)
        assert store.retry([job.id]) == [Redriven.READY]
        assert payloads(line.reserve(2)) == [1]

    def test_scheduled_jobs_hold_nobody_back_before_they_begin(self, line: Queue, clock: StoreClock) -> None:
        line.push_many([Push("later", delay=60), "now"])
        line.reserve()[0].commit()
        assert line.reserve() == []
        clock.advance(61)
        assert payloads(line.reserve()) == ["later"]

    def test_batches_and_pops_and_ranges_take_one(self, line: Queue, store: Store) -> None:
        line.push_many(range(4))
        assert store.claim(Claim(QUEUE, 3, "batch", rows=False)).reserved == 1
        assert line.reserve(3) == []
        (running,) = store.claim(Claim(QUEUE, 3, "batch", repeat=True)).rows
        store.settle([Commit(running.lease)])
        popped = line.pop()
        assert popped is not None
        assert popped.payload == 1
        assert payloads(line.reserve(3, lanes=range(1))) == [2]

    def test_a_claim_of_higher_ranks_does_not_pass_the_head(self, store: Store) -> None:
        store.configure(QUEUE, ORDERED)
        store.push([low := new_job(priority=1)])
        (row,) = claim(store)
        back(store, row, 0.0)
        store.push([high := new_job(priority=9)])
        assert store.claim(Claim(QUEUE, 5, "high", min_rank=5)).rows == []
        assert run(store) == [low.id, high.id]
        store.push([new_job(priority=1)])
        assert store.claim(Claim(QUEUE, 5, "higher", min_rank=5)).rows == []

    def test_pauses_and_rates_hold_as_well(self, line: Queue, clock: StoreClock) -> None:
        line.configure(max_rate=1)
        line.push_many(range(3))
        clock.advance(5)
        line.reserve(3)[0].commit()
        line.pause()
        assert line.reserve() == []
        line.resume()
        clock.advance(5)
        assert payloads(line.reserve(3)) == [1]


class TestWaysIntoAnOrderedQueue:
    def test_every_way_is_in_order(self, store: Store, app: Stanchion) -> None:
        """Plain pushes, moves, dead letters, copies, retries and adopted jobs; none overtakes the one begun."""
        store.configure(QUEUE, ORDERED)
        store.configure("source", {"dead_letter": QUEUE})
        first, *sources = [new_job(), *(new_job(queue="source") for _ in range(3))]
        store.push([first])
        (head,) = claim(store)
        store.push(sources)
        moved, buried, finished = claim(store, 3, queue="source")
        store.settle([Move(moved.lease, QUEUE, lane=-1), Bury(buried.lease, "no"), Commit(finished.lease)])
        copies = push_copies(store, [finished.id], [new_job().id])
        assert copies[0] is not None
        store.push([adopted := new_job()])
        row = row_of(store, adopted.id)
        store.delete([row.ref])
        store.adopt([detached(row, store.now())])
        app.queue(QUEUE).push("last")
        assert claim(store, 10) == []
        app.reservation(head.id, head.token or "").rollback(delay=600)
        assert claim(store, 10) == []
        store.retry([head.id])
        (again,) = claim(store, 10)
        assert again.id == first.id
        store.settle([Commit(again.lease)])
        done = run(store)
        assert len(done) == 4
        assert {moved.id, buried.id, adopted.id} < set(done)

    @pytest.fixture
    def line(self, q: Queue) -> Queue:
        q.configure(ordered=True)
        return q

    def test_turned_on_and_off_while_jobs_run_and_wait(self, q: Queue, clock: StoreClock) -> None:
        q.push_many(range(6))
        running = q.reserve(2)
        q.configure(ordered=True)
        assert q.reserve() == []
        running[0].commit()
        assert q.reserve() == []
        running[1].rollback(delay=50)
        (third,) = q.reserve(3)
        third.rollback(delay=60)
        assert q.reserve() == []
        q.configure(ordered=False)
        assert payloads(q.reserve(9, lease=1000)) == [3, 4, 5]
        clock.advance(61)
        assert payloads(q.reserve(9)) == [1, 2]

    def test_turned_on_while_jobs_hold_and_wait_for_slots(self, store: Store, clock: StoreClock) -> None:
        """What waits or holds from before can't lock the line for ever."""
        store.set_semaphore("s", 1)
        limits = '{"hold":["s"]}'
        old = [new_job(limits=limits), new_job(limits=limits), new_job(order_key="k"), new_job(order_key="k")]
        store.push(old)
        rows = {row.id: row for row in claim(store, 10)}
        assert set(rows) == {old[0].id, old[2].id}
        back(store, rows[old[2].id], 30.0)
        store.configure(QUEUE, ORDERED)
        new = [new_job(limits=limits, priority=9), new_job(order_key="k", priority=8), new_job()]
        store.push(new)
        store.settle([Commit(rows[old[0].id].lease)])
        clock.advance(31)
        done = run(store)
        assert set(done) == {job.id for job in [*old[1:], *new]}

    def test_a_head_that_waits_for_a_semaphore_holds_back_the_rest(self, store: Store) -> None:
        store.configure(QUEUE, ORDERED)
        store.set_semaphore("s", 1)
        limits = '{"hold":["s"]}'
        store.push([new_job(queue="other", limits=limits)])
        (holder,) = claim(store, queue="other")
        jobs = [new_job(limits=limits, priority=n) for n in (0, 0, 1, 2)]
        store.push([*jobs, plain := new_job()])
        for _ in range(3):
            assert claim(store, 10) == []
        assert [state(store, job.id) for job in jobs] == [JobState.READY] * 3 + [JobState.WAITING]
        store.settle([Commit(holder.lease)])
        assert run(store) == [jobs[n].id for n in (3, 2, 0, 1)] + [plain.id]

    def test_what_holds_something_else_does_not_overtake(self, store: Store) -> None:
        store.push([holding := new_job(order_key="k")])
        (row,) = claim(store)
        back(store, row, 0.0)  # it keeps its key
        store.configure(QUEUE, ORDERED)
        store.set_semaphore("s", 1)
        limits = '{"hold":["s"]}'
        store.push([new_job(queue="other", limits=limits)])
        (holder,) = claim(store, queue="other")
        store.push([head := new_job(limits=limits, priority=9)])
        for _ in range(3):
            assert claim(store, 10) == []
        store.settle([Commit(holder.lease)])
        assert run(store) == [head.id, holding.id]

    def test_a_job_that_comes_back_before_another_began_is_still_the_first(self, line: Queue, app: Stanchion) -> None:
        line.push_many(["first", "second"])
        line.reserve()[0].move("elsewhere")
        app.queue("elsewhere").reserve()[0].move(QUEUE)
        assert payloads(line.reserve(2)) == ["first"]

    def test_jobs_in_lanes_of_before_are_drained(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 3, "lanes_per_tenant": 1, "uses_lanes": True})
        jobs = [new_job(lane=n % 3) for n in range(6)]
        store.push(jobs)
        store.configure(QUEUE, {"lanes": 1, **ORDERED})
        store.push([last := new_job()])
        assert set(run(store)) == {*(job.id for job in jobs), last.id}

    def test_with_lanes_it_is_refused(self, q: Queue) -> None:
        q.configure(lanes=4)
        with pytest.raises(InvalidInput, match="ordered_by='tenant'"):
            q.configure(ordered=True)
        q.configure(lanes=1, ordered=True)
        with pytest.raises(InvalidInput, match="lanes=1"):
            q.configure(lanes=4)
        with pytest.raises(InvalidInput, match="one job at a time"):
            q.configure(max_running=2)
        assert q.configure(max_running=None).max_running == 1
        assert q.reset("max_running").max_running == 1
        assert q.reset("ordered").max_running is None

    @pytest.mark.parametrize("other", [{"lanes": 2}, {"max_running": 2}])
    def test_a_contradiction_in_code_is_refused_where_it_stands(self, app: Stanchion, other: dict[str, Any]) -> None:
        app.queue(QUEUE, ordered=True)
        with pytest.raises(InvalidInput, match="ordered"):
            app.queue(QUEUE, **other)

    def test_declared_in_code(self, app: Stanchion, store: Store) -> None:
        app.queue(QUEUE, ordered=True).push(1)
        (settings,) = store.queues([QUEUE])
        assert (settings.ordered, settings.max_running) == (True, 1)

    def test_many_claimers_hand_out_one_at_a_time(self, new_store: NewStore, store: Store) -> None:
        store.configure(QUEUE, ORDERED)
        jobs = [new_job() for _ in range(12)]
        store.push(jobs)
        done: list[str] = []

        def work() -> None:
            mine = new_store()
            tried = 0
            while len(done) < len(jobs) and tried < 3000:
                tried += 1
                for row in claim(mine, 3):
                    if row.attempts == 1:
                        assert back(mine, row, 0.0) is not None
                    else:
                        done.append(row.id)
                        assert mine.settle([Commit(row.lease)]) == [JobState.DONE]

        all_at_once([work] * 3)
        assert done == [job.id for job in jobs]
