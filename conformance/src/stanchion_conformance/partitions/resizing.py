"""Partitioned queues: a change of their number of partitions, with deaths in it and processes that do not know it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, cast

import pytest

import stanchion.context.context
import stanchion.partitions.layouts
from stanchion import Push, Queue, Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.core.names.hashing import bucket
from stanchion.core.names.partition_names import partition_name
from stanchion.cron.ticker import Ticker
from stanchion.stores.protocol import Store
from stanchion_conformance.cron.schedules import QUEUE as REPORTS
from stanchion_conformance.cron.schedules import Calendar, Death, Dying, declare, ticks
from stanchion_conformance.harness import QUEUE, NewStore, in_threads, new_job
from stanchion_conformance.partitions.placing import PARTITIONS


class DiedHere(BaseException):
    """A process dies."""


class Before:
    """A store that calls a function before each of its changes, with their number from 0."""

    def __init__(self, store: Store, act: Callable[[int], None]) -> None:
        self._store, self._act, self._numbers = store, act, count()

    def __getattr__(self, verb: str) -> Any:
        if verb in ("configure", "compare_and_set", "drop_queue"):
            self._act(next(self._numbers))
        return getattr(self._store, verb)


def app_with(store: Store, act: Callable[[int], None]) -> Stanchion:
    """Return the app of a process in which something happens before each change."""
    return Stanchion(store=cast("Store", Before(store, act)))


def dies_before(step: int) -> Callable[[int], None]:
    def act(number: int) -> None:
        if number == step:
            raise DiedHere

    return act


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes read the layouts again at each opportunity."""
    monkeypatch.setattr(stanchion.partitions.layouts, "READ_SECONDS", 0.0)
    monkeypatch.setattr(stanchion.context.context, "READ_SECONDS", 0.0)


class TestDeathsInAResize:
    def test_a_death_at_each_step_of_the_first_use(self, store: Store, other_store: Store) -> None:
        for step in count():
            name = f"queue {step}"
            unaware = Stanchion(store=other_store).queue(name)
            assert unaware.size().total == 0
            try:
                app_with(store, dies_before(step)).queue(name, partitions=3).push(0, key="k")
                died = False
            except DiedHere:
                died = True
            queue = Stanchion(store=store).queue(name, partitions=3)
            assert queue.push(1, key="k").partition == bucket("k", 3)
            assert unaware.push(2, key="k").duplicate  # it has read that the queue has partitions
            assert {job.partition for job in unaware.push_many(range(60))} == {0, 1, 2}
            assert (queue.settings.partitions, queue.settings.key_partitions) == (3, 3)
            assert len(queue.reserve(100)) == 61
            if not died:
                assert step > 4
                break

    @pytest.mark.usefixtures("at_once")
    def test_a_death_at_each_step_of_a_change(self, store: Store, other_store: Store) -> None:
        for step in count():
            name = f"queue {step}"
            queue = Stanchion(store=store).queue(name, partitions=2)
            queue.configure(lease=77)
            queue.pause()
            before = {f"k{n}": queue.push(n, key=f"k{n}").partition for n in range(4)}
            try:
                app_with(store, dies_before(step)).queue(name).configure(partitions=5, history_ttl=60)
                died = False
            except DiedHere:
                died = True
            other = Stanchion(store=other_store)
            there = other.queue(name)
            assert {key: there.push(0, key=key).partition for key in before} == before
            there.push_many(range(20))
            assert there.reserve(30) == []
            other.store.maintain()
            stored = store.queues([name, *(partition_name(name, n) for n in range(there.settings.partitions))])
            assert {(one.paused, one.lease, one.history_ttl) for one in stored} == {(True, 77, stored[0].history_ttl)}
            there.resume()
            assert len(there.reserve(30)) == 24
            if not died:
                assert there.settings.partitions == 5
                break

    def test_a_death_at_each_step_of_a_deletion(self, store: Store, other_store: Store) -> None:
        for step in count():
            name = f"queue {step}"
            unaware = Stanchion(store=other_store).queue(name)
            assert unaware.size().total == 0
            Stanchion(store=store).queue(name, partitions=2).push_many(range(10))
            try:
                app_with(store, dies_before(step)).queue(name).delete()
                died = False
            except DiedHere:
                died = True
            left = len(Stanchion(store=store).queue(name).find())
            queue = Stanchion(store=store).queue(name, partitions=2)
            queue.push(1, key="k")
            assert unaware.push(2, key="k").duplicate
            context_of(queue).store.maintain()  # it restores the settings of partitions that were deleted
            there = store.queues([name, *(partition_name(name, n) for n in range(queue.settings.partitions))])
            assert len(there) == 3
            assert len(queue.reserve(20)) == left + 1
            if not died:
                assert not left
                break

    def test_another_first_use_before_each_step(self, store: Store, other_store: Store) -> None:
        for step in count():
            name = f"queue {step}"
            others: list[str] = []

            def act(number: int, step: int = step, name: str = name, others: list[str] = others) -> None:
                if number == step:
                    others.append(Stanchion(store=other_store).queue(name, partitions=5).push(0, key="k").id)

            queue = app_with(store, act).queue(name, partitions=3)
            job = queue.push(1, key="k")
            assert [job.id] == others or not others
            if not others:
                break

    def test_another_change_before_each_step(self, store: Store, other_store: Store) -> None:
        """Of two processes that change settings at the same time, the partitions get the settings of both."""
        for step in count():
            name = f"queue {step}"
            done: list[int] = []
            other = Stanchion(store=other_store).queue(name, partitions=2)
            other.reserve()  # its first use

            def act(number: int, step: int = step, other: Queue = other, done: list[int] = done) -> None:
                if number == step:
                    other.pause()
                    done.append(number)

            app_with(store, act).queue(name).configure(partitions=4, lease=88)
            other.push_many(range(20))
            assert Stanchion(store=store).queue(name).settings.partitions == 4
            stored = store.queues([name, *(partition_name(name, n) for n in range(4))])
            assert len(stored) == 5
            assert {(one.paused, one.lease) for one in stored} == {(bool(done), 88)}
            if not done:
                break


class TestResizingPartitions:
    @pytest.mark.usefixtures("at_once")
    def test_is_noticed_by_a_process_that_only_pushes(self, parted: Queue, elsewhere_parted: Queue) -> None:
        elsewhere_parted.push(1)
        parted.configure(partitions=PARTITIONS + 5)
        context_of(elsewhere_parted).settings.forget()  # as a second later
        used = {job.partition for job in elsewhere_parted.push_many(range(300))}
        assert used == set(range(PARTITIONS + 5))

    @pytest.mark.usefixtures("at_once")
    def test_is_noticed_by_a_process_that_only_looks(self, q: Queue, elsewhere_q: Queue) -> None:
        q.push(0)
        assert elsewhere_q.size().total == 1
        q.configure(partitions=PARTITIONS)
        q.push_many(range(20))
        assert elsewhere_q.size().total == len(elsewhere_q.find()) == 21
        assert elsewhere_q.settings.partitions == PARTITIONS
        elsewhere_q.pause()
        assert q.reserve(30) == []

    def test_is_noticed_by_a_process_that_only_reserves(self, parted: Queue, elsewhere_parted: Queue) -> None:
        """It reads the layouts when a share of the upkeep is due, also where another process has just done that."""
        assert elsewhere_parted.reserve() == []
        parted.configure(partitions=PARTITIONS + 5)
        pushed = parted.push_many(range(100))
        known = [job.id for job in pushed if cast("int", job.partition) < PARTITIONS]
        reserved = [job.id for job in elsewhere_parted.reserve(100)]
        assert sorted(reserved) == sorted(known)
        assert context_of(parted).upkeep.share()
        assert not context_of(elsewhere_parted).upkeep.share()
        reserved += [job.id for job in elsewhere_parted.reserve(100)]
        assert sorted(reserved) == sorted(job.id for job in pushed)

    def test_is_noticed_when_a_job_goes_on(self, app: Stanchion, other_app: Stanchion) -> None:
        other_app.queue("before").push(1, order_key="o")
        (job,) = other_app.queue("before").reserve()
        first = app.queue(QUEUE, partitions=PARTITIONS).push(0, order_key="o")
        job.move(QUEUE)
        found = {one.payload: one.partition for one in app.queue(QUEUE).find()}
        assert found == {0: first.partition, 1: first.partition}
        assert len(app.queue(QUEUE).reserve(5)) == 1

    def test_by_a_process_that_knows_an_older_number(self, parted: Queue, elsewhere_parted: Queue) -> None:
        assert elsewhere_parted.settings.partitions == PARTITIONS
        parted.configure(partitions=2)
        elsewhere_parted.configure(partitions=PARTITIONS)
        assert elsewhere_parted.settings.partitions == PARTITIONS
        assert {job.partition for job in elsewhere_parted.push_many(range(100))} == set(range(PARTITIONS))
        parted.configure(partitions=9)
        elsewhere_parted.pause()
        parted.push_many(range(40))
        assert parted.reserve(100) == []

    def test_while_several_push_the_same_keys(self, parted: Queue, new_store: NewStore) -> None:
        keys, numbers = [f"k{n}" for n in range(12)], (16, 2, 1, 9, 4)

        def push(queue: Queue) -> None:
            for key in random.sample(keys, len(keys)):
                queue.push(0, key=key)
                queue.push_many([1, Push(2, key=key)])

        def resize(queue: Queue) -> None:
            for number in numbers:
                queue.configure(partitions=number)

        queues = [Stanchion(store=new_store()).queue(QUEUE) for _ in range(4)]
        with in_threads([*(partial(push, queue) for queue in queues), partial(resize, parted)]):
            pass
        found = parted.find(limit=500)
        assert sorted(job.key for job in found if job.key is not None) == sorted(keys)
        assert len(found) == len(keys) + 4 * len(keys)
        context_of(queues[0]).notice_partitions()  # as within half a minute: it may know the first partitions only
        assert len(queues[0].reserve(500)) == len(found)

    def test_while_jobs_run_in_the_order_of_their_keys(self, parted: Queue, new_store: NewStore) -> None:
        pushed, seen, running = 8, defaultdict[str, list[int]](list), defaultdict[str, int](int)

        def push(queue: Queue, key: str) -> None:
            for n in range(pushed):
                queue.push([key, n], order_key=key)

        def consume(queue: Queue) -> None:
            while sum(map(len, seen.values())) < 3 * pushed:
                for job in queue.reserve(3, wait=0.1):
                    key, n = job.payload
                    running[key] += 1
                    assert running[key] == 1
                    seen[key].append(n)
                    running[key] -= 1
                    job.commit()

        def resize(queue: Queue) -> None:
            for number in (9, 1, 3, 12):
                queue.configure(partitions=number)

        queues = [Stanchion(store=new_store()).queue(QUEUE) for _ in range(3)]
        pushing = [partial(push, queue, key) for queue, key in zip(queues, "abc", strict=True)]
        consuming = [partial(consume, queue) for queue in queues[:2]]
        with in_threads([*pushing, *consuming, partial(resize, parted)], timeout=120.0):
            pass
        assert seen == {key: list(range(pushed)) for key in "abc"}

    def test_reads_what_a_deleted_queue_has_left(self, parted: Queue, app: Stanchion, store: Store) -> None:
        """A process that did not know of the deletion, or a dead letter that is retried, stores a job there."""
        parted.delete()
        store.push([new_job(queue=partition_name(QUEUE, 3))])
        queue = app.queue(QUEUE, partitions=2)
        assert [job.partition for job in queue.reserve(5)] == [3]
        store.push([new_job(queue=partition_name(QUEUE, 7))])
        app.store.maintain()
        assert [job.partition for job in queue.reserve(5)] == [7]

    def test_between_two_tries_of_a_tick(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        schedules = [f"report {n}" for n in range(3)]
        for name in schedules:
            for one in (app, other_app):
                declare(one, name=name, schedule=name, missed="all")
        app.queue(REPORTS).configure(partitions=3)
        calendar.go(hours=1)
        doomed = Stanchion(store=cast("Store", Dying(app.store, 2)))  # it dies before it stores that it is done
        context_of(doomed).registry = context_of(app).registry
        with pytest.raises(Death):
            Ticker(context_of(doomed)).tick()
        app.queue(REPORTS).configure(partitions=64)
        context_of(other_app).notice_partitions()
        calendar.go(seconds=10)
        tick(other_app)
        calendar.go(seconds=10)
        tick(other_app)
        assert [ticks(app, name) for name in schedules] == [["2031-05-14T13:00"]] * 3
        assert app.queue(REPORTS).size().total == 3
