"""Partitioned queues: figures, settings and operation as of one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any, cast

import pytest

from stanchion import InvalidInput, Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.copying.transfer import Transfer
from stanchion.core.names.partition_names import partition_name
from stanchion.core.times import moment
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, StoreClock, payloads
from stanchion_conformance.partitions.placing import PARTITIONS


class TestFiguresOfPartitions:
    def test_add_up(self, parted: Queue, elsewhere_parted: Queue) -> None:
        parted.push_many(range(10))
        parted.push_many([Push(n, delay=60) for n in range(5)])
        for job in parted.reserve(4):
            job.commit()
        parted.reserve(3)
        for queue in (parted, elsewhere_parted):
            size, counts = queue.size(), queue.counts()
            assert (size.total, size.ready, size.scheduled, size.running) == (11, 3, 5, 3)
            assert (counts.pushed, counts.reserved, counts.committed) == (15, 7, 4)
            assert sum(queue.lanes().values()) == 8

    def test_name_the_earliest_job(self, parted: Queue) -> None:
        assert parted.next_due() is None
        jobs = parted.push_many([Push(n, delay=100 - n) for n in range(20)])
        assert parted.next_due() == min(job.run_at for job in jobs)

    def test_name_the_head_of_each_rank(self, parted: Queue, app: Stanchion) -> None:
        parted.push_many([Push(n, priority=5 * (n % 2), delay=100 - n) for n in range(20)])
        heads = app.store.stats([QUEUE], ["heads"])[QUEUE].heads
        first = {rank: min(job.run_at for job in parted.find() if job.priority == rank) for rank in (0, 5)}
        assert {head.rank: moment(head.run_at) for head in heads} == first
        assert len(heads) == 2

    def test_are_of_one_queue(self, parted: Queue, app: Stanchion) -> None:
        parted.push_many(range(20))
        app.queue("other").push(1)
        app.queue("other").configure()
        assert [queue.name for queue in app.queues()] == [QUEUE, "other"]
        assert parted.settings.partitions == PARTITIONS

    def test_of_lanes_add_up(self, parted: Queue) -> None:
        parted.configure(lanes=8, lanes_per_tenant=2)
        parted.push_many([Push(n, tenant=f"t{n % 5}") for n in range(40)])
        assert sum(parted.lanes().values()) == 40
        assert None not in parted.lanes()
        assert len(parted.reserve(100)) == 40


class TestFindingInPartitions:
    def test_pages_in_order(self, parted: Queue) -> None:
        jobs = parted.push_many(range(30))
        for job in parted.reserve(12):
            job.commit()
        newest = sorted((job.id for job in jobs), reverse=True)
        assert [job.id for job in parted.find()] == newest
        found, after = [], None
        while page := parted.find(limit=7, after=after):
            found += [job.id for job in page]
            after = page[-1].id
        assert found == newest
        assert len(parted.history()) == 12
        assert len(parted.find(state="ready")) == 18
        assert [job.payload for job in parted.find(limit=1)] == [29]

    def test_pages_in_each_order(self, parted: Queue, app: Stanchion) -> None:
        parted.push_many([Push(n, priority=n % 3) for n in range(30)])
        due = Query(
            "live", (Condition("queue", "=", QUEUE),), order="due", limit=7, columns=("queue", "priority", "id")
        )
        found = [row for page in pages(app.store, due) for row in page]
        assert [queue for queue, _, _ in found] == [QUEUE] * 30
        assert [priority for _, priority, _ in found] == [2] * 10 + [1] * 10 + [0] * 10
        for job in parted.reserve(30):
            job.commit()
        ended = Query("history", (Condition("queue", "=", QUEUE),), order="finished", limit=4, columns=("finished_at",))
        times = [at for page in pages(app.store, ended) for (at,) in page]
        assert times == sorted(times)
        assert len(times) == 30

    def test_by_the_queues_passed(self, parted: Queue, app: Stanchion) -> None:
        jobs = parted.push_many(range(20))
        for job in parted.reserve(8):
            job.move("next")
        assert len(parted.find(passed=True)) == 20
        found, after = [], None
        while page := app.find(passed=QUEUE, limit=3, after=after):
            found += [job.id for job in page]
            after = page[-1].id
        assert found == sorted((job.id for job in jobs), reverse=True)
        moved = app.queue("next").find()
        assert {tuple(stop.queue for stop in job.trail) for job in moved} == {(QUEUE, "next")}
        assert [stop.queue for stop in parted.find()[0].trail] == [QUEUE]
        assert parted.get(moved[0].id) is None
        assert parted.get(moved[0].id, passed=True) is not None
        assert len(app.queue("next").find(passed=True)) == 8
        for job in app.queue("next").reserve(8):
            job.move(QUEUE)
        assert len(parted.find(passed=True)) == 20

    def test_in_parts(self, parted: Queue, app: Stanchion) -> None:
        jobs = parted.push_many(range(40))
        query = Query("live", (Condition("queue", "in", (QUEUE, "other")),), order="id", limit=10)
        parts = app.store.partition(query, 3)
        found = [row.id for part in parts for page in pages(app.store, part) for row in page]
        assert sorted(found) == [job.id for job in jobs]

    def test_by_id(self, parted: Queue, app: Stanchion) -> None:
        job = parted.push(1)
        found = parted.get(job.id)
        assert found is not None
        assert (found.queue, found.partition) == (QUEUE, job.partition)
        assert app.queue("other").get(job.id) is None
        assert parted.cancel(job.id) is JobState.CANCELLED
        assert parted.retry(job.id).state is JobState.READY
        assert parted.replay([job.id]) == []


class TestOperatingPartitions:
    def test_pauses_all(self, parted: Queue, elsewhere_parted: Queue) -> None:
        parted.push_many(range(20))
        elsewhere_parted.pause()
        assert parted.reserve(20) == []
        assert parted.settings.paused
        parted.resume()
        assert len(parted.reserve(20)) == 20

    def test_pauses_partitions_to_come(self, parted: Queue) -> None:
        parted.pause()
        parted.configure(partitions=9)
        parted.push_many(range(60))
        assert parted.reserve(60) == []
        parted.resume()
        assert len(parted.reserve(60)) == 60

    def test_applies_settings_to_all(self, parted: Queue, elsewhere_parted: Queue, clock: StoreClock) -> None:
        elsewhere_parted.configure(lease=5, history_ttl=timedelta(0))
        parted.push_many(range(20))
        held = parted.reserve(20)
        for job in held[:10]:
            job.commit()
        assert parted.history() == []
        clock.advance(6)
        back = []
        for _ in range(4 * PARTITIONS):  # each claim frees the expired leases of one partition
            back += parted.reserve(20)
        assert sorted(payloads(back)) == sorted(payloads(held[10:]))

    def test_gives_jobs_of_all_their_time(self, parted: Queue, store: Store, clock: StoreClock) -> None:
        parted.configure(jobs_expire=60)
        jobs = parted.push_many(range(20))
        own = [parted.push(n, expires=100) for n in range(3)]
        assert {job.expires for job in parted.find()} == {60.0, 100.0}
        clock.advance(61)
        assert {job.id for job in parted.reserve(30)} == {job.id for job in own}
        store.maintain()
        assert parted.counts().lapsed == len(jobs)

    def test_purges_all(self, parted: Queue) -> None:
        parted.push_many(range(20))
        for job in parted.reserve(20):
            job.commit()
        assert parted.purge_history(0) == 20
        assert parted.history() == []

    def test_keeps_so_many_finished_jobs_in_each(self, parted: Queue, app: Stanchion, clock: StoreClock) -> None:
        parted.configure(history_max=2, history_ttl={"done": 100, "default": 300})
        assert (parted.settings.history_max, parted.settings.shorter_ttls) == (2, {"done": 100.0})
        parted.push_many(range(60))
        for job in parted.reserve(60):
            job.commit()
        assert app.store.maintain(seconds=60) == []
        assert Counter(job.partition for job in parted.history(limit=100)) == dict.fromkeys(range(PARTITIONS), 2)
        parted.push(1)
        parted.reserve()[0].bury("broken")
        clock.advance(101)
        assert app.store.maintain(seconds=60) == []
        assert [job.state for job in parted.history()] == [JobState.DEAD]

    def test_purges_all_by_outcome(self, parted: Queue, clock: StoreClock) -> None:
        parted.configure(history_ttl={"done": 100, "dead": 300})
        parted.push_many(range(20))
        for number, job in enumerate(parted.reserve(20)):
            job.commit() if number % 2 else job.bury("broken")
        clock.advance(101)
        assert parted.purge_history() == 10
        assert {job.state for job in parted.history()} == {JobState.DEAD}

    def test_repairs_partitions_whose_settings_were_not_stored(
        self, parted: Queue, app: Stanchion, store: Store
    ) -> None:
        store.configure(QUEUE, {"paused": True})  # a process died after this
        parted.push_many(range(20))
        app.store.maintain()
        assert parted.reserve(20) == []
        stored = store.queues([partition_name(QUEUE, n) for n in range(PARTITIONS)])
        assert [one.paused for one in stored] == [True] * PARTITIONS

    @pytest.mark.parametrize(
        ("setting", "value"), [("max_rate", 60), ("max_running", 60), ("expires", 60), ("ordered_by", "tenant")]
    )
    def test_refuses_settings_of_each_by_itself(self, parted: Queue, app: Stanchion, setting: str, value: Any) -> None:
        changes: dict[str, Any] = {setting: value}
        with pytest.raises(InvalidInput, match=f"leave {setting} out"):
            parted.configure(**changes)
        with pytest.raises(InvalidInput, match="leave ordered out"):
            parted.configure(ordered=True)
        assert getattr(parted.settings, setting) is None
        limited = app.queue("limited")
        limited.configure(**changes)
        with pytest.raises(InvalidInput, match=f"leave {setting} out"):
            limited.configure(partitions=2)
        assert limited.settings.partitions == 1
        limited.configure(partitions=2, **{setting: cast(Any, None)})
        assert limited.settings.partitions == 2

    def test_refuses_dead_letters_to_partitions(self, parted: Queue, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="without"):
            app.queue("other").configure(dead_letter=QUEUE)
        app.queue("other").configure(dead_letter="letters")
        with pytest.raises(InvalidInput, match="without partitions"):
            app.queue("letters").configure(partitions=2)
        parted.configure(dead_letter=QUEUE)  # it keeps its own in its history
        parted.push(1, max_attempts=1)
        parted.reserve()[0].rollback(error="no")
        assert [job.state for job in parted.history()] == [JobState.DEAD]

    def test_keeps_the_change_of_an_operator(self, parted: Queue, other_app: Stanchion) -> None:
        parted.configure(partitions=7)
        again = other_app.queue(QUEUE, partitions=PARTITIONS)
        again.push(1)
        assert again.settings.partitions == 7
        again.reset("partitions")
        assert again.settings.partitions == PARTITIONS

    @pytest.mark.parametrize("wrong", [0, -1, 1025, 2.5, True, "4", None])
    def test_refuses_a_wrong_number(self, app: Stanchion, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match="partitions must be"):
            app.queue(QUEUE, partitions=wrong)

    def test_deletes_all(self, parted: Queue, store: Store) -> None:
        parted.push_many(range(20))
        for job in parted.reserve(5):
            job.commit()
        assert parted.delete() == 15
        assert (store.queues(), parted.find(), parted.size().total) == ([], [], 0)


class TestCopyingPartitions:
    @pytest.fixture
    def memory(self) -> Iterator[Store]:
        with closing(open_store("memory://")) as store:
            yield store

    def test_from_store_to_store_and_back(self, parted: Queue, app: Stanchion, memory: Store) -> None:
        parted.configure(lease=77)
        parted.push_many([Push(n, key=f"k{n}") for n in range(10)])
        parted.push_many([Push(n, delay=60) for n in range(10, 20)])
        for job in parted.reserve(4):
            job.commit()
        (copied,) = Transfer(app.store, memory, [QUEUE], history=True, settle=0).run()
        assert (copied.live, copied.history) == (16, 4)
        assert parted.size().total == 0
        there = Stanchion(store=memory).queue(QUEUE)
        assert (there.size().total, len(there.history())) == (16, 4)
        assert (there.settings.lease, there.settings.partitions) == (77, PARTITIONS)
        live = [job for job in there.find() if job.key is not None and not job.state.final]
        assert all(there.push(0, key=job.key).id == job.id for job in live)
        Transfer(PartitionedStore(memory), app.store, [QUEUE], settle=0).run()
        assert (parted.size().total, there.size().total) == (16, 0)
        assert len(parted.reserve(20)) == 6

    def test_of_a_queue_that_has_one_partition_again(self, parted: Queue, app: Stanchion, memory: Store) -> None:
        jobs = parted.push_many([*range(20), Push(20, key="k")])
        parted.configure(partitions=1)
        Transfer(app.store, memory, [QUEUE], settle=0).run()
        there = Stanchion(store=memory).queue(QUEUE)
        assert [there.push(0, key="k").id, there.size().total] == [jobs[20].id, 21]
        assert len(there.reserve(30)) == 21

    def test_to_other_partitions(self, parted: Queue, app: Stanchion, memory: Store) -> None:
        there = Stanchion(store=memory).queue(QUEUE, partitions=9)
        there.configure()
        jobs = parted.push_many([Push(n, key=f"k{n}") for n in range(20)])
        Transfer(app.store, context_of(there).store, [QUEUE], settle=0).run()
        assert [there.push(0, key=f"k{n}").id for n in range(20)] == [job.id for job in jobs]
