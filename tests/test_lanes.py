"""Shuffle shards, against frozen vectors and a second implementation, and what a push must not pay for lanes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion import Push, Stanchion
from stanchion.context.lanes import COUNTED
from stanchion.context.shard import MAX_LANES, shuffle_shard
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.queues import QueueSettings
from stanchion_conformance.harness import new_job

VECTORS = json.loads((Path(__file__).parent / "data" / "shuffle_shards.json").read_text("utf-8"))

lanes_and_size = st.integers(1, MAX_LANES).flatmap(lambda lanes: st.tuples(st.just(lanes), st.integers(1, lanes)))
tenants = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['tenant']}-{vector['lanes']}-{vector['size']}")
def test_is_what_it_always_was(vector: dict[str, Any]) -> None:
    tenant, lanes, size, shard = vector.values()
    assert list(shuffle_shard(tenant, lanes, size)) == shard


@given(tenants, lanes_and_size)
def test_is_what_a_second_implementation_says(tenant: str, of: tuple[int, int]) -> None:
    assert list(shuffle_shard(tenant, *of)) == drawn(tenant, *of)


@given(tenants, lanes_and_size)
def test_is_of_distinct_lanes_in_range(tenant: str, of: tuple[int, int]) -> None:
    lanes, size = of
    shard = shuffle_shard(tenant, lanes, size)
    assert len(shard) == len(set(shard)) == size
    assert set(shard) <= set(range(lanes))


@given(tenants, st.integers(1, 64))
def test_of_as_many_as_there_are_is_all(tenant: str, lanes: int) -> None:
    assert set(shuffle_shard(tenant, lanes, lanes)) == set(range(lanes))


@given(tenants, lanes_and_size)
def test_of_fewer_begins_alike(tenant: str, of: tuple[int, int]) -> None:
    lanes, size = of
    assert shuffle_shard(tenant, lanes, lanes)[:size] == shuffle_shard(tenant, lanes, size)


def test_tenants_are_spread_over_all_lanes() -> None:
    used = [0] * 64
    for n in range(6400):
        for lane in shuffle_shard(f"tenant-{n}", 64, 6):
            used[lane] += 1
    assert 500 < min(used) <= max(used) < 700


def drawn(tenant: str, lanes: int, size: int) -> list[int]:
    """Take lanes out of a list: what is left fills the gap with its front, as an exchange would."""
    draws = generator(reduce(lambda h, byte: (h ^ byte) * 1099511628211 % 2**64, tenant.encode(), 14695981039346656037))
    taken: list[int] = []
    rest = list(range(lanes))
    while len(taken) < size:
        at = next(draws) % len(rest)
        taken.append(rest[at])
        rest[at] = rest[0]
        del rest[0]
    return taken


def generator(seed: int) -> Iterator[int]:
    """Yield the values of splitmix64 by the number of the step."""
    step = 0
    while True:
        step += 1
        z = (seed + step * 11400714819323198485) % 2**64
        for shift, factor in ((30, 13787848793156543929), (27, 10723151780598845931)):
            z = (z ^ z // 2**shift) * factor % 2**64
        yield z ^ z // 2**31


class Counting(MemoryStore):
    """Tells how often it was asked for settings and depths."""

    def __init__(self) -> None:
        super().__init__()
        self.settings_read = self.depths_read = 0
        self.names_read: set[str] = set()
        queues, lane_depths = self.queues, self.lane_depths

        def read_queues(names: Iterable[str] | None = None) -> list[QueueSettings]:
            self.settings_read += 1
            found = queues(names)
            self.names_read.update(names or (settings.name for settings in found))
            return found

        def read_depths(*args: Any, **options: Any) -> dict[int, int]:
            self.depths_read += 1
            return lane_depths(*args, **options)

        self.queues, self.lane_depths = read_queues, read_depths


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def app(store: Counting) -> Stanchion:
    return Stanchion(store=store)


def test_settings_are_read_once_in_a_while(app: Stanchion, store: Counting) -> None:
    app.queue("laned").configure(lanes=4)
    for _ in range(50):
        app.queue("plain").push(1, tenant="acme")
    assert store.settings_read <= 3
    assert store.depths_read == 0


def test_those_of_the_named_queues_are_read(app: Stanchion, store: Counting) -> None:
    store.push([new_job(queue=f"other {n}") for n in range(50)])
    app.queue("laned").configure(lanes=4)
    app.queue("laned").push(1, tenant="acme")
    app.queue("plain").push_many([1, 2])
    assert store.names_read == {"laned", "plain"}


def test_many_queues_are_read_together(app: Stanchion, store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    watch = SimpleNamespace(monotonic=lambda: next(clock) // 250 * 2.0)
    monkeypatch.setattr("stanchion.context.queues.cached_settings.time", watch)
    for n in range(1000):
        app.queue(f"queue {n % 250}").push(n)
    assert store.settings_read <= 250 + 3 * 10


def test_depths_are_read_once_a_batch_and_only_where_there_is_a_choice(app: Stanchion, store: Counting) -> None:
    queue = app.queue("laned")
    queue.configure(lanes=16, lanes_per_tenant=4)
    queue.push_many([Push(n, tenant=f"t{n % 7}") for n in range(500)])
    assert store.depths_read == 1
    queue.push_many(range(500))
    queue.configure(lanes_per_tenant=1)
    queue.push_many([Push(n, tenant=f"t{n % 7}") for n in range(500)])
    assert store.depths_read == 1


def test_lanes_too_long_to_be_counted_grow_alike(app: Stanchion, store: Counting) -> None:
    queue = app.queue("laned")
    queue.configure(lanes=8, lanes_per_tenant=2)
    shard = shuffle_shard("acme", 8, 2)
    for lane in shard:
        store.push([new_job(queue="laned", lane=lane) for _ in range(COUNTED)])
    for _ in range(10):
        queue.push(1, tenant="acme")
    assert queue.lanes() == {shard[0]: COUNTED + 5, shard[1]: COUNTED + 5}


def test_another_store_has_other_settings(app: Stanchion) -> None:
    app.queue("jobs").configure(lanes=4)
    assert app.queue("jobs").push(1).lane is not None
    with app.testing():
        assert app.queue("jobs").push(1).lane is None
    assert app.queue("jobs").push(1).lane is not None
