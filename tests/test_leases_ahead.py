"""Processes that start together look once for leases from before the clock was set back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from stanchion.core.ids import new_token
from stanchion.stores.cas.workers import LooksForLeases
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import QUEUE, in_threads, new_job

HOUR = 3600.0


@pytest.fixture(params=["redis", "mongo"])
def started(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """Starts another process at a store without transactions over several jobs."""
    url = request.getfixturevalue(f"{request.param}_url")
    with ExitStack() as stack:

        def start(offset: float = 0.0) -> Any:
            store: Any = stack.enter_context(closing(open_store(url)))
            store.clock_offset = offset
            store.looks = []
            leased = store._lost._rows.leased
            store._lost._rows.leased = lambda now: store.looks.append(now) or leased(now)
            return store

        start().setup()
        yield start


def test_one_of_all_that_start_looks(started: Callable[..., Any]) -> None:
    first = started()
    first.push([new_job() for _ in range(20)])
    first.claim(Claim(QUEUE, 20, new_token(), lease=30.0))
    fleet = [started() for _ in range(4)]
    with in_threads([store.recover for store in fleet]):
        pass
    assert sum(len(store.looks) for store in fleet) == 1
    for store in fleet:
        store.recover()
    assert sum(len(store.looks) for store in fleet) == 1
    late = started(offset=HOUR)
    late.recover()
    assert len(late.looks) == 1, "nobody has looked for long"


def test_each_look_sees_leases_from_before(started: Callable[..., Any]) -> None:
    before = started()
    before.push([new_job()])
    (row,) = before.claim(Claim(QUEUE, 1, new_token(), lease=30.0)).rows
    before.recover()
    after = [started(offset=-HOUR) for _ in range(3)]
    assert [store.recover() for store in after] == [[], [], []]
    assert [len(store.looks) for store in after] == [1, 0, 0]
    after[1].clock_offset = 31 - HOUR
    assert [one.id for one in after[1].recover()] == [row.id]


def test_a_value_that_is_no_time_is_replaced() -> None:
    store = MemoryStore()
    looks = LooksForLeases(store)
    assert store.compare_and_set("clock", "leases", "soon", 0)
    now = store.now()
    assert looks.mine(now)
    assert not looks.mine(now + SECOND)
    assert looks.mine(now - 20 * SECOND), "the clock was set back"
    assert looks.mine(now + 60 * SECOND)


def test_who_comes_second_to_the_value_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "compare_and_set", lambda *_: False)
    assert not LooksForLeases(store).mine(store.now())
