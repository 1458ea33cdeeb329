"""Partitioned queues: claims go round their partitions."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from stanchion import Push, Queue, Snooze, Stanchion, group
from stanchion.core.names.partition_names import partition_name
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.streams.acknowledge import acknowledge
from stanchion.streams.sink import rows
from stanchion.streams.source import StreamSource
from stanchion.streams.state import load
from stanchion.worker.worker import Worker
from stanchion_conformance.harness import LONG_LEASE, QUEUE, StoreClock, payloads, worker
from stanchion_conformance.partitions.placing import PARTITIONS

SOON = 60.0


class TestConsumingPartitions:
    def test_takes_the_jobs_of_all(self, parted: Queue, elsewhere_parted: Queue) -> None:
        jobs = parted.push_many(range(50))
        taken = [*parted.reserve(20), *elsewhere_parted.reserve(100)]
        assert sorted(payloads(taken)) == list(range(50))
        assert {job.id: job.partition for job in taken} == {job.id: job.partition for job in jobs}
        assert {job.queue for job in taken} == {QUEUE}
        for job in taken:
            job.commit(result=job.payload)
        assert parted.counts().committed == 50
        assert parted.reserve(1) == []

    def test_goes_round(self, parted: Queue) -> None:
        parted.push_many(range(200))
        taken = Counter(parted.reserve()[0].partition for _ in range(5 * (PARTITIONS + 1)))
        assert set(taken) == set(range(PARTITIONS))
        assert min(taken.values()) >= 5

    def test_by_pop_and_by_batch(self, parted: Queue) -> None:
        parted.push_many(range(20))
        popped = [parted.pop() for _ in range(10)]
        with parted.batch(50) as jobs:
            assert len(jobs) == 10
        assert parted.pop() is None
        assert len({job.id for job in popped if job is not None}) == 10
        assert parted.counts().popped == 10

    def test_keeps_the_order_within_each(self, parted: Queue) -> None:
        for priority in (0, 5, -5):
            for n in range(3):
                parted.push((priority, n), priority=priority, order_key="o")
        taken = []
        while jobs := parted.reserve(5):
            assert len(jobs) == 1
            taken.append(tuple(jobs[0].payload))
            jobs[0].commit()
        assert len(taken) == 9
        assert taken == [(p, n) for p in (0, 5, -5) for n in range(3)]  # an order key goes before the priority

    def test_runs_one_job_of_an_order_key_at_a_time(self, parted: Queue, elsewhere_parted: Queue) -> None:
        for n in range(6):
            (parted, elsewhere_parted)[n % 2].push(n, order_key="o")
        seen = []
        for n in range(6):
            (job,) = (elsewhere_parted, parted)[n % 2].reserve(10)
            assert parted.reserve(10) == []
            seen.append(job.payload)
            job.commit()
        assert seen == list(range(6))

    def test_leaves_scheduled_jobs(self, parted: Queue, clock: StoreClock) -> None:
        parted.push_many(range(8))
        for job in parted.reserve(8):
            job.rollback(delay=50)
        assert (parted.reserve(8), parted.size().scheduled) == ([], 8)
        assert parted.next_due() is not None
        clock.advance(51)
        assert len(parted.reserve(8)) == 8

    def test_takes_back_a_lease_that_ran_out_in_any(self, parted: Queue, clock: StoreClock) -> None:
        for n in range(3 * PARTITIONS):
            job = parted.push(n)
            assert [one.id for one in parted.reserve(lease=10)] == [job.id]
            assert parted.reserve() == []
            clock.advance(11)
            (back,) = parted.reserve()
            assert back.id == job.id
            back.commit()

    def test_waits_for_a_job_in_any(self, parted: Queue, elsewhere_parted: Queue) -> None:
        got: list[int] = []

        def consume() -> None:
            while len(got) < 6:
                got.extend(payloads(parted.reserve(1, wait=SOON)))

        waiting = threading.Thread(target=consume)
        waiting.start()
        for n in range(6):
            elsewhere_parted.push(n, key=f"k{n}")
            deadline = time.monotonic() + SOON
            while len(got) <= n and time.monotonic() < deadline:
                time.sleep(0.01)
        waiting.join(SOON)
        assert got == list(range(6))

    def test_repeats_a_claim_whose_reply_was_lost(self, parted: Queue, app: Stanchion) -> None:
        parted.push_many(range(12))
        first = app.store.claim(Claim(QUEUE, 10, "t1", lease=LONG_LEASE)).rows
        assert len(first) == 10
        again = app.store.claim(Claim(QUEUE, 0, "t1", lease=LONG_LEASE, repeat=True)).rows
        assert {row.id for row in again} == {row.id for row in first}
        assert app.store.settle([Commit(row.lease) for row in first]) == [JobState.DONE] * 10
        assert app.store.settle([Commit(row.lease) for row in first], repeat=True) == [JobState.DONE] * 10

    def test_hands_out_alone_what_has_lost_leases(self, parted: Queue, app: Stanchion, clock: StoreClock) -> None:
        store = app.store
        store.beat([worker("w")])
        lost = parted.push("kills", key="a")
        for n in range(2):
            while not store.claim(Claim(QUEUE, 1, f"t{n}+", worker="w")).rows:
                pass
            clock.advance(100)
            store.beat([worker("alive")])
            store.recover()
            clock.advance(1000)
            store.beat([worker("w")])
        parted.push_many(range(30))
        seen, tries = [], 0
        while lost.id not in seen and tries < 200:
            tries += 1
            rows = store.claim(Claim(QUEUE, 50, f"u{tries}", worker="w")).rows
            if lost.id in (ids := [row.id for row in rows]):
                assert ids == [lost.id]
            seen += ids
        assert lost.id in seen


class TestWorkingOnPartitions:
    def test_by_a_worker(self, app: Stanchion, parted: Queue) -> None:
        ran: Counter[int] = Counter()

        @app.task(queue=QUEUE, name="count")
        def count(n: int) -> int:
            ran[n] += 1
            return n

        handles = count.enqueue_many([(n,) for n in range(60)])
        working = Worker(app, threads=4)
        working.start()
        try:
            assert sorted(handle.result(timeout=SOON) for handle in handles) == list(range(60))
            late = count.using(key="late").enqueue(99)
            assert late.result(timeout=SOON) == 99
        finally:
            working.stop()
        assert set(ran.values()) == {1}
        assert parted.counts().committed == 61

    def test_in_flows(self, app: Stanchion, parted: Queue) -> None:
        failed: list[int] = []

        @app.task(queue=QUEUE, name="add")
        def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task(queue=QUEUE, name="total")
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task(queue=QUEUE, name="fail", max_attempts=1)
        def fail() -> None:
            raise ValueError("no")

        @app.task(queue=QUEUE, name="note", key="note")
        def note() -> None:
            failed.append(1)

        flow = group(add.s(n) for n in range(10)).then(total.s()).enqueue()
        broken = group(fail.s(), add.s(1)).then(total.s()).on_failure(note.s()).enqueue()
        app.drain()
        assert flow.result(timeout=SOON) == sum(range(10)) + 10
        assert (broken.state, failed) == ("failed", [1])
        assert parted.size().total == 0

    def test_with_a_key_that_stays_while_it_goes_on(self, app: Stanchion, parted: Queue) -> None:
        @app.task(queue=QUEUE, name="second")
        def second() -> Snooze:
            return Snooze(60)

        @app.task(queue=QUEUE, name="first")
        def first() -> Any:
            return second.s()

        ids = [first.using(key=f"k{n}").enqueue().id for n in range(8)]
        app.drain()
        assert [parted.push(0, key=f"k{n}").id for n in range(8)] == ids

    def test_with_outcomes_that_go_on(self, app: Stanchion, parted: Queue, clock: StoreClock) -> None:
        ran: list[str] = []

        @app.task(queue=QUEUE, name="later")
        def later() -> Snooze | str:
            ran.append("later")
            return Snooze(60) if len(ran) == 1 else "done"

        handle = later.enqueue()
        app.drain()
        assert parted.size().scheduled == 1
        clock.advance(61)
        app.drain()
        assert handle.result(timeout=SOON) == "done"

    def test_with_dead_letters(self, app: Stanchion, parted: Queue) -> None:
        parted.configure(dead_letter="letters")
        job = parted.push(1, order_key="o", max_attempts=1)
        parted.reserve()[0].rollback(error="no")
        (letter,) = app.queue("letters").find()
        assert (letter.id, letter.dead_from) == (job.id, QUEUE)
        again = app.retry_job(job.id)
        assert (again.queue, again.partition) == (QUEUE, job.partition)
        assert parted.push(2, order_key="o").partition == job.partition
        assert payloads(parted.reserve(2)) == [1]

    def test_with_semaphores_and_rates(self, app: Stanchion, parted: Queue) -> None:
        app.semaphore("printer", capacity=2)
        for n in range(10):
            parted.push(n, limits=["printer"], key=f"k{n}")
        done = 0
        while done < 10:
            jobs = parted.reserve(10)
            assert len(jobs) == 2
            assert parted.reserve(10) == []
            for job in jobs:
                job.commit()
                done += 1

    def test_with_the_rate_of_the_whole_queue(self, parted: Queue, clock: StoreClock) -> None:
        parted.push_many([Push(n, rate=0.01, rate_by="queue") for n in range(12)])
        assert len({job.partition for job in parted.find()}) > 1
        for _ in range(3):
            taken = [job for _ in range(2 * PARTITIONS) for job in parted.reserve(12)]
            assert len(taken) == 1
            clock.advance(101)

    def test_in_batches_of_a_stream(self, app: Stanchion, parted: Queue, store: Store) -> None:
        parted.push_many(range(30))
        source = StreamSource(app.store, "s", QUEUE)
        at, seen = source.initial(), []
        while (end := source.latest(at, 10)) != at:
            (part,) = source.parts(at, end, 1)
            found = rows(app.store, part)
            assert len({row.queue for row in found}) == 1
            seen += [row.id for row in found]
            state = load(store, "s")
            assert state is not None
            acknowledge(app.store, "s", state)
            at = end
        assert len(seen) == len(set(seen)) == 30
        assert parted.counts().committed == 30
        assert parted.size().total == 0

    def test_which_are_the_queues_of_the_store(self, parted: Queue, store: Store) -> None:
        parted.push_many(range(10))
        assert store.stats([QUEUE], ["states"])[QUEUE].states.total == 0
        held = sum(
            one.states.total
            for one in store.stats([partition_name(QUEUE, n) for n in range(PARTITIONS)], ["states"]).values()
        )
        assert held == 10
