"""A job on its way from a queue on one node of a cluster to a queue on another, and deaths on that way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Move, Pass, Passage
from stanchion.stores.records.queues import Counts, Sizes
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.registry import open_store
from stanchion.waits.pop import pop
from stanchion_conformance.harness import counts_of, sizes_of
from tests.servers.redis_cluster import RedisCluster

HERE, THERE = "orders", "shipping"
PREFIXES = (f"crossing{number}" for number in count())


class Died(BaseException):
    """Stands for the death of the process."""


@pytest.fixture
def new_store(redis_cluster: RedisCluster) -> Iterator[Callable[[], RedisStore]]:
    """A function that opens the same keys once more."""
    url = f"{redis_cluster.url().partition('?')[0]}?prefix={next(PREFIXES)}"
    opened: list[RedisStore] = []

    def open_one() -> RedisStore:
        store = open_store(url)
        assert isinstance(store, RedisStore)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(new_store: Callable[[], RedisStore]) -> RedisStore:
    store = new_store()
    for queue in (HERE, THERE):
        store.configure(queue, {})
    slots = {store.server.client.keyslot(store.server.keys.queue(queue)) for queue in (HERE, THERE)}
    assert len({store.server.client.nodes_manager.get_node_from_slot(slot).name for slot in slots}) == 2
    return store


def running(store: RedisStore, **fields: Any) -> str:
    """Make a job of HERE run under the token "t"; return its id."""
    (pushed,) = store.push([NewJob(new_id(), HERE, "{}", **fields)])
    store.claim(Claim(HERE, 1, "t"))
    return pushed.id


def dies_after(store: RedisStore, calls: int) -> None:
    """Have the process die once so many calls have been answered."""
    left, client = count(calls, -1), store.server.client
    execute = client.execute_command

    def execute_or_die(*parts: Any, **options: Any) -> Any:
        if next(left) <= 0:
            raise Died
        return execute(*parts, **options)

    client.execute_command = execute_or_die


def at_every_step(
    new_store: Callable[[], RedisStore], act: Callable[[RedisStore, str], object], **fields: Any
) -> Iterator[tuple[str, bool]]:
    """Do it again and again, each time dying one call later; yield the job, and whether all was done."""
    for calls in count():
        store = new_store()
        job = running(store, **fields)
        store.fetch([job])
        dies_after(store, calls)
        try:
            act(store, job)
        except Died:
            yield job, False
        else:
            yield job, True
            return


def test_a_job_is_in_one_queue_wherever_the_mover_dies(store: RedisStore, new_store: Callable[[], RedisStore]) -> None:
    steps = 0
    for job, finished in at_every_step(
        new_store, lambda mover, job: mover.settle([Move(Lease(HERE, job, "t"), THERE)])
    ):
        witness = new_store()
        row = witness.fetch([job])[job]
        assert (row.queue, row.state) in {(HERE, "running"), (THERE, "queued")}
        assert row.queue == THERE or not finished
        store.maintain()
        total = sizes_of(store, HERE).total + sizes_of(store, THERE).total
        assert total == 1
        assert sizes_of(store, row.queue).total == 1
        assert store.fetch([job])[job].queue == row.queue
        (taken,) = store.claim(Claim(THERE, 1, "u")).rows if row.queue == THERE else [row]
        assert taken.id == job
        assert store.drop_queue(HERE) + store.drop_queue(THERE) == 1
        steps += 1
    assert steps > 4


def test_upkeep_brings_what_nobody_asks_for(store: RedisStore, new_store: Callable[[], RedisStore]) -> None:
    arrived = 0
    for job, _ in at_every_step(new_store, lambda mover, job: mover.settle([Move(Lease(HERE, job, "t"), THERE)])):
        new_store().maintain()
        if sizes_of(store, THERE) == Sizes(total=1, ready=1):
            arrived += 1
            assert sizes_of(store, HERE).total == 0
            assert [row.id for row in pop(store, Claim(THERE, 1, "u")).rows] == [job]
        store.drop_queue(HERE)
        store.drop_queue(THERE)
    assert arrived > 2


def test_a_dead_letter_comes_through_too(store: RedisStore, new_store: Callable[[], RedisStore]) -> None:
    store.configure(HERE, {"dead_letter": THERE})
    for job, _ in at_every_step(new_store, lambda mover, job: mover.settle([Bury(Lease(HERE, job, "t"), "no use")])):
        store.maintain()
        row = store.fetch([job])[job]
        assert (row.queue, row.state) in {(HERE, "running"), (THERE, "queued")}
        assert sizes_of(store, HERE).total + sizes_of(store, THERE).total == 1
        store.drop_queue(HERE)
        store.drop_queue(THERE)
        store.configure(HERE, {"dead_letter": THERE})


def dies_before(store: RedisStore, step: str) -> Callable[[], object]:
    """Have the process die before a script; return a function that runs it after all, as a slow process would."""
    script = store._jobs.script
    held: list[Callable[[], object]] = []

    def run(name: str, queue: str, *arguments: Any) -> Any:
        if name == step:
            held.append(partial(script, name, queue, *arguments))
            raise Died
        return script(name, queue, *arguments)

    store._jobs.script = run  # type: ignore[method-assign]
    return lambda: held[0]()


def moves_and_dies(store: RedisStore, job: str, token: str, target: str, step: str) -> Callable[[], object]:
    """Move a job, and die before a step of that; return the step."""
    goes_on = dies_before(store, step)
    with pytest.raises(Died):
        store.settle([Move(Lease(HERE, job, token), target)])
    return goes_on


def test_brought_twice_it_arrives_once_also_when_it_is_done(
    store: RedisStore, new_store: Callable[[], RedisStore]
) -> None:
    store.configure(THERE, {"history_ttl": 0.0})
    job = running(store)
    goes_on = moves_and_dies(new_store(), job, "t", THERE, "arrive")
    store.maintain()
    assert [row.id for row in pop(store, Claim(THERE, 1, "u")).rows] == [job]
    assert store.fetch([job]) == {}
    goes_on()
    assert sizes_of(store, THERE).total == 0


def test_what_a_step_counts_in_another_queue_is_counted_once(
    store: RedisStore, new_store: Callable[[], RedisStore]
) -> None:
    lease, mover = Lease(HERE, running(store), "t"), new_store()
    goes_on = dies_before(mover, "count")
    with pytest.raises(Died):
        mover.settle([Pass(lease, (Passage(THERE),), Commit(lease))])
    store.maintain()
    goes_on()
    assert counts_of(store, HERE) == Counts(pushed=1, reserved=1, moved=1)
    assert counts_of(store, THERE) == Counts(reserved=1, committed=1)
    assert store.fetch([lease.id])[lease.id].queue == THERE


def test_a_late_bringer_does_not_forget_the_next_journey(
    store: RedisStore, new_store: Callable[[], RedisStore]
) -> None:
    job = running(store)
    goes_on = moves_and_dies(new_store(), job, "t", THERE, "left")
    store.maintain()
    store.claim(Claim(THERE, 1, "u"))
    store.settle([Move(Lease(THERE, job, "u"), HERE)])
    store.claim(Claim(HERE, 1, "v"))
    moves_and_dies(new_store(), job, "v", THERE, "arrive")
    goes_on()
    assert new_store().fetch([job])[job].queue == THERE
    assert sizes_of(store, THERE).total == 1
