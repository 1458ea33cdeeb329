"""Long runs of jobs that have to wait, on the SQL stores and in memory: a claim is bounded, and looks past them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion.stores.sql.claims.pick import RUN as PART
from stanchion_conformance.harness import sizes_of

RUN = 3000
SLOT: dict[str, Any] = {"limits": limits_text(Limits(("slot",)))}
KEY: dict[str, Any] = {"order_key": "k"}


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        store.set_semaphore("slot", 1)
        yield store


def push(store: Store, count: int, queue: str = "q", **given: Any) -> list[str]:
    ids = new_ids(count)
    store.push([NewJob(one, queue, "1", **given) for one in ids])
    return ids


def took(store: Store, limit: int = 10, under: str = "t") -> list[str]:
    return [row.id for row in store.claim(Claim("q", limit, under, "w")).rows]


@pytest.mark.nightly_except("postgresql")
@pytest.mark.parametrize("given", [SLOT, KEY], ids=["semaphore", "order key"])
def test_what_may_run_is_found_before_all_others_are_parked(store: Store, given: dict[str, Any]) -> None:
    holder = push(store, 1, **given)
    assert took(store) == holder
    waiters = push(store, RUN, **given)
    free = push(store, 10)
    assert took(store) == free
    assert sizes_of(store, "q").waiting < 500 + PART, "it did not wait until all of them were parked"
    assert sizes_of(store, "q").waiting > PART, "it parked a part of those that it had skipped"
    more = push(store, 10)
    assert took(store) == more
    while store.claim(Claim("q", 10, "t", "w")).retry_in == 0:
        pass
    assert sizes_of(store, "q").waiting == RUN
    store.settle([Commit(Lease("q", holder[0], "t"))])
    assert took(store, 2, "t2") == waiters[:1]


@pytest.mark.nightly_except("postgresql")
def test_what_a_rate_does_not_bind_is_found_before_all_others_are_deferred(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"limits": limits_text(Limits((), Rate("api", 0.001)))}
    (first,) = push(store, 1, **given)
    assert took(store) == [first]
    waiters = push(store, RUN, **given)
    free = push(store, 10)
    ticks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: next(ticks) / 1000)  # skipping takes time, on any machine
    assert took(store) == free
    asked = sizes_of(store, "q").scheduled
    assert 200 < asked < 1000, "it deferred some of those that it had skipped, but not all of them"
    more = push(store, 10)
    assert took(store) == more
    monkeypatch.undo()
    assert asked < sizes_of(store, "q").scheduled
    calls = 1
    while store.claim(Claim("q", 10, "t", "w")).retry_in == 0:
        calls += 1
    assert calls < 10, "where nothing else is there, a claim defers as many as its time allows"
    assert sizes_of(store, "q").scheduled == RUN
    rows = store.fetch(waiters)
    assert sorted(waiters, key=lambda job: rows[job].run_at) == waiters


def test_a_claim_that_defers_what_it_has_skipped_takes_no_more_jobs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"limits": limits_text(Limits((), Rate("api", 0.001)))}
    push(store, 1, **given)
    assert len(took(store)) == 1
    push(store, 250, **given)
    free = push(store, 50)
    push(store, 500, **given)
    ticks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: next(ticks) / 1000)  # skipping takes time, on any machine
    assert took(store) == free[:10]
    assert sizes_of(store, "q").running == 11
    assert sizes_of(store, "q").scheduled > 140, "it has deferred some"


def test_a_job_that_a_rate_promised_a_time_is_not_looked_past(store: Store) -> None:
    given: dict[str, Any] = {"limits": limits_text(Limits((), Rate("api", 0.001)))}
    first, second = push(store, 2, **given)
    assert took(store) == [first]
    promised = store.fetch([second])[second].run_at
    store.clock_offset = 1001
    push(store, RUN, **given, priority=1)
    push(store, 10)
    took(store)
    took(store)
    assert store.fetch([second])[second].run_at > promised, "it asked again, and was promised another time"


def test_a_claim_of_several_rounds_takes_no_more_than_it_wants(store: Store) -> None:
    push(store, 1, **SLOT)
    assert len(took(store)) == 1
    first = push(store, 1)
    push(store, 20, **SLOT)
    free = push(store, 10)
    assert took(store, 3, "t2") == first + free[:2]
    assert sizes_of(store, "q").running == 4


def test_higher_priorities_come_first_behind_a_run(store: Store) -> None:
    push(store, 1, **SLOT)
    took(store)
    push(store, 300, **SLOT, priority=5)
    low, high = push(store, 3), push(store, 3, priority=3)
    assert took(store, 6) == high + low


def test_a_job_that_holds_the_slot_is_not_looked_past(store: Store) -> None:
    """It was granted its slot, and is the first to run, while very many others still ask for one."""
    first, second = push(store, 2, **SLOT)
    assert took(store) == [first]
    push(store, 500, **SLOT)
    assert took(store, 1) == []
    store.settle([Commit(Lease("q", first, "t"))])
    push(store, 500, **SLOT, priority=9)
    assert took(store, 5, "t2") == [second]


def test_a_claim_breaks_off_after_half_its_lease(store: Store) -> None:
    push(store, 1, **SLOT)
    assert len(took(store)) == 1
    push(store, RUN, **SLOT)
    answer = store.claim(Claim("q", 10, "t2", lease=1e-4))
    assert (answer.rows, answer.retry_in) == ([], 0.0)
    assert sizes_of(store, "q").ready > 0
    calls = 1
    while answer.retry_in == 0.0:
        answer = store.claim(Claim("q", 10, "t2", lease=1e-4))
        calls += 1
    assert sizes_of(store, "q").waiting == RUN
    assert calls > 2


def test_in_memory_too() -> None:
    store = MemoryStore()
    store.set_semaphore("slot", 1)
    push(store, 1, **SLOT)
    assert len(took(store)) == 1
    push(store, RUN, **SLOT)
    answer = store.claim(Claim("q", 10, "t2", lease=1e-4))
    assert (answer.rows, answer.retry_in) == ([], 0.0)
    assert 0 < sizes_of(store, "q").waiting < RUN
    assert store.claim(Claim("q", 10, "t3", "w")).retry_in is None
    assert sizes_of(store, "q").waiting == RUN
