"""Partitioned queues: which partition gets a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from stanchion import InvalidInput, Push, Queue, Stanchion
from stanchion.core.names.hashing import bucket
from stanchion.core.names.partition_names import partition_name
from stanchion.errors import DuplicateKey
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import QUEUE, all_at_once, new_job

PARTITIONS = 4


@pytest.fixture
def parted(app: Stanchion) -> Queue:
    """A queue with PARTITIONS partitions, which its code declares."""
    queue = app.queue(QUEUE, partitions=PARTITIONS)
    queue.reserve()  # its first use
    return queue


@pytest.fixture
def elsewhere_parted(parted: Queue, other_app: Stanchion) -> Queue:  # noqa: ARG001 - `parted` comes first
    """The same queue in another process, whose code declares nothing."""
    return other_app.queue(QUEUE)


def ids_pushed(queues: Sequence[Queue], **options: Any) -> list[str]:
    """Push a job to each of the queues, all at once; return the ids."""
    pushed: list[str] = []

    def push(queue: Queue) -> None:
        pushed.append(queue.push(1, **options).id)

    all_at_once([partial(push, queue) for queue in queues])
    return pushed


class TestPartitionOfAJob:
    def test_shows_the_queue_and_the_partition(self, parted: Queue, elsewhere_parted: Queue) -> None:
        jobs = parted.push_many(range(100))
        assert {job.queue for job in jobs} == {QUEUE}
        assert {job.partition for job in jobs} == set(range(PARTITIONS))
        seen = {job.id: (job.queue, job.partition) for job in elsewhere_parted.find()}
        assert seen == {job.id: (QUEUE, job.partition) for job in jobs}
        assert not jobs[0].duplicate

    def test_of_a_key_is_always_the_same(self, parted: Queue, elsewhere_parted: Queue) -> None:
        for key in ("a", "é", "🙂", "%'; --", "x" * 200):
            one, other = parted.push(1, key=key), elsewhere_parted.push(2, key=key)
            assert (other.id, other.duplicate) == (one.id, True)
            assert one.partition == bucket(key, PARTITIONS)
            assert parted.push(3, order_key=key).partition == one.partition
        assert parted.size().total == 10

    def test_is_one_for_a_key_and_its_order_key(self, parted: Queue) -> None:
        with pytest.raises(InvalidInput, match="give one of them"):
            parted.push_many([Push(1), Push(2, key="a", order_key="b")])
        assert parted.size().total == 0
        assert parted.push(1, key="a", order_key="a", tenant="t").partition == bucket("a", PARTITIONS)

    def test_of_a_tenant_is_in_its_shard(self, app: Stanchion) -> None:
        queue = app.queue(QUEUE, partitions=64)
        used = {job.partition for job in queue.push_many([Push(n, tenant="acme") for n in range(300)])}
        assert len(used) == 6

    def test_is_the_same_when_a_push_is_repeated(self, parted: Queue, app: Stanchion) -> None:
        jobs = [new_job(), new_job(key="k"), new_job(order_key="o"), new_job(tenant="t")]
        for _ in range(2):
            app.store.push(jobs)
        assert parted.size().total == 4

    def test_holds_the_key_against_others_at_the_same_time(self, parted: Queue, elsewhere_parted: Queue) -> None:
        queues = [parted, elsewhere_parted] * 2
        pushed = ids_pushed(queues, key="k")
        assert len(set(pushed)) == 1
        with pytest.raises(DuplicateKey, match=f"'{QUEUE}'") as raised:
            parted.push(1, key="k", on_duplicate="raise")
        assert raised.value.queue == QUEUE
        assert parted.push(5, key="k", on_duplicate="replace").id == pushed[0]
        assert [job.payload for job in parted.find()] == [5]

    def test_of_a_job_that_goes_on_is_that_of_its_order_key(self, parted: Queue, app: Stanchion) -> None:
        app.queue("before").push_many([Push(n, key="k" * (n + 1), order_key=f"o{n}") for n in range(6)])
        for job in app.queue("before").reserve(6):
            job.move(QUEUE)
        assert {job.order_key: job.partition for job in parted.find()} == {
            f"o{n}": bucket(f"o{n}", PARTITIONS) for n in range(6)
        }
        assert {job.key for job in parted.reserve(10)} == {None}

    def test_of_a_copy_is_that_of_its_key(self, parted: Queue) -> None:
        job = parted.push(1, key="k")
        for reserved in parted.reserve(1):
            reserved.commit()
        (copy,) = parted.replay([job.id])
        assert (copy.queue, copy.partition, copy.origin) == (QUEUE, job.partition, job.id)
        assert parted.push(1, key="k").id == copy.id

    def test_can_be_named_by_nobody(self, app: Stanchion, parted: Queue) -> None:
        name = partition_name(QUEUE, 1)
        for refused in (
            lambda: app.queue(name),
            lambda: app.queue("other", dead_letter=name),
            lambda: app.using("task", queue=name),
        ):
            with pytest.raises(InvalidInput, match="like a partition"):
                refused()
        parted.push(1)
        with pytest.raises(InvalidInput, match="like a partition"):
            parted.reserve()[0].move(name)
        with pytest.raises(InvalidInput, match="like a partition"):
            Push(1, queue=name)
        for fine in ("#1", "a#", "a#01", "a#b", "#"):
            assert app.queue(fine).push(1).queue == fine

    @pytest.mark.parametrize("name", ["a#b", "#", "x#01", "🙂 '%; --#", "é" * 195])
    def test_of_a_queue_with_a_strange_name(self, app: Stanchion, other_app: Stanchion, name: str) -> None:
        queue = app.queue(name, partitions=3)
        jobs = queue.push_many([*range(60), Push(60, key="k")])
        assert {job.partition for job in jobs} == {0, 1, 2}
        assert [one.name for one in other_app.queues()] == [name]
        assert other_app.queue(name).push(0, key="k").id == jobs[60].id
        assert len(other_app.queue(name).reserve(100)) == 61

    def test_refuses_a_name_too_long_for_partitions(self, app: Stanchion) -> None:
        long = app.queue("x" * 196)
        with pytest.raises(InvalidInput, match="at most 195"):
            app.queue("x" * 196, partitions=2)
        with pytest.raises(InvalidInput, match="at most 195"):
            long.configure(partitions=2)
        assert long.push(1).queue == long.name


class TestKeysStay:
    """Where the keys of a queue are does not change while it lives, so that no process can look in another place."""

    def test_in_the_queue_itself_if_it_had_jobs_before(self, q: Queue, elsewhere_q: Queue) -> None:
        before = q.push(1, key="k")
        q.configure(partitions=PARTITIONS)
        assert (q.settings.partitions, q.settings.key_partitions) == (PARTITIONS, 0)
        again = q.push(2, key="k")
        assert (again.id, again.duplicate) == (before.id, True)
        assert elsewhere_q.push(3, key="k").id == before.id  # it has opened the store before
        assert q.push(4, order_key="o").partition is None
        assert q.push(5, key="other", order_key="o").partition is None
        assert {job.partition for job in q.push_many(range(100))} == set(range(PARTITIONS))

    def test_when_there_are_more_partitions(self, parted: Queue, elsewhere_parted: Queue) -> None:
        keys = [f"k{n}" for n in range(20)]
        before = {key: parted.push(1, key=key).partition for key in keys}
        elsewhere_parted.push(1, key=keys[0])
        parted.configure(partitions=16)
        assert {key: parted.push(1, key=key).partition for key in keys} == before
        assert {key: elsewhere_parted.push(1, key=key).partition for key in keys} == before
        assert parted.size().total == 20
        assert max(job.partition or 0 for job in parted.push_many(range(80))) >= PARTITIONS

    def test_when_there_are_fewer(self, parted: Queue) -> None:
        before = {f"k{n}": parted.push(1, key=f"k{n}").partition for n in range(20)}
        parted.configure(partitions=2)
        assert {key: parted.push(1, key=key).partition for key in before} == before
        assert {job.partition for job in parted.push_many(range(60))} == {0, 1}
        parted.configure(partitions=1)
        assert {job.partition for job in parted.push_many(range(5))} == {None}
        assert {key: parted.push(1, key=key).partition for key in before} == before
        assert len(parted.reserve(100)) == 85

    def test_where_the_first_of_several_processes_put_them(self, app: Stanchion, other_app: Stanchion) -> None:
        one, other = app.queue(QUEUE, partitions=3), other_app.queue(QUEUE, partitions=5)
        assert len(set(ids_pushed((one, other), key="k"))) == 1
        assert one.settings.key_partitions == other.settings.key_partitions
        assert one.settings.key_partitions in (3, 5)

    def test_until_the_queue_is_deleted(self, parted: Queue, app: Stanchion, store: Store) -> None:
        parted.push_many([1, 2, 3])
        assert parted.delete() == 3
        assert app.queues() == []
        assert store.queues() == []
        queue = app.queue(QUEUE, partitions=2)
        assert queue.push(1, key="k").partition == bucket("k", 2)
        assert (queue.settings.partitions, queue.settings.key_partitions) == (2, 2)


@pytest.fixture
def elsewhere_q(other_app: Stanchion) -> Queue:
    """The queue in another process, which has used it before it had partitions."""
    queue = other_app.queue(QUEUE)
    assert queue.size().total == 0
    return queue
