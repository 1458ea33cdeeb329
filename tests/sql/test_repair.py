"""What `recover` repairs on SQL stores, and in memory, after the rows of slots were damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.slots import Slot
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import order_slot, semaphore_slot, waits_at
from stanchion.stores.sql.limits import repair
from stanchion.stores.sql.store import SqlStore

SLOT = limits_text(Limits(("slot",)))


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        store.set_semaphore("slot", 1)
        yield store


def jobs(count: int, **given: Any) -> list[NewJob]:
    return [NewJob(job, "q", "1", **given) for job in new_ids(count)]


def damage(store: SqlStore, statement: str) -> None:
    with store.database.connection() as connection:
        assert connection.exec_driver_sql(statement).rowcount > 0


def used(store: SqlStore) -> dict[Slot, int]:
    with store.database.connection() as connection:
        rows = connection.exec_driver_sql("SELECT kind, queue, name, used FROM stanchion_slots").fetchall()
    return {Slot(*row[:3]): row[3] for row in rows}


def took(store: Any, limit: int = 5) -> list[str]:
    return [row.id for row in store.claim(Claim("q", limit, "t", "w")).rows]


def test_a_slot_of_a_finished_job_is_freed(store: SqlStore) -> None:
    waiting = jobs(2, limits=SLOT)
    damage(store, "UPDATE stanchion_slots SET used = 1 WHERE kind = 'semaphore' AND name = 'slot'")
    store.push(waiting)
    assert took(store) == []
    store.recover(limit=0)
    assert took(store) == [waiting[0].id]
    assert used(store) == {semaphore_slot("slot"): 1}


def test_an_order_key_of_a_finished_job_is_freed(store: SqlStore) -> None:
    first, second = jobs(2, order_key="k")
    store.push([first, second])
    assert took(store) == [first.id]
    damage(store, f"DELETE FROM stanchion_jobs WHERE id = '{first.id}'")
    assert took(store) == []
    store.recover(limit=0)
    assert took(store) == [second.id]


@pytest.mark.parametrize("given", [{"limits": SLOT}, {"order_key": "k"}], ids=["semaphore", "order key"])
@pytest.mark.parametrize("harm", ["UPDATE stanchion_slots SET used = 0", "DELETE FROM stanchion_slots"])
def test_a_slot_that_is_held_is_counted_again(store: SqlStore, given: dict[str, Any], harm: str) -> None:
    first, second, third = jobs(3, **given)
    store.push([first, second])
    assert took(store) == [first.id]
    damage(store, harm)
    store.recover(limit=0)
    store.push([third])
    assert took(store) == [], "the first one holds it still"
    assert sum(used(store).values()) == 1
    store.settle([Commit(Lease(first.queue, first.id, "t"))])
    assert took(store) == [second.id]


def test_a_waiter_that_nobody_remembers_goes_on(store: SqlStore) -> None:
    first, second = jobs(2, limits=SLOT)
    store.push([first, second])
    assert took(store) == [first.id]
    damage(store, "UPDATE stanchion_slots SET waited = (1 = 0)")
    store.settle([Commit(Lease(first.queue, first.id, "t"))])
    assert took(store) == []
    store.recover(limit=0)
    assert took(store) == [second.id]


def test_a_call_looks_at_so_many_slots(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_SLOTS_READ", 3)
    monkeypatch.setattr(repair, "_WAITED_FOR", 3)
    stuck = [
        NewJob(job, "q", "1", order_key=f"k{n}", **waits_at(order_slot("q", f"k{n}")))
        for n, job in enumerate(new_ids(8))
    ]
    store.push(stuck)
    found: list[int] = []
    while len(found) < 10 and sum(found) < len(stuck):
        store.recover(limit=0)
        found.append(len(took(store, 20)))
    assert found == [3, 3, 2]


def test_in_memory_too() -> None:
    store = MemoryStore(FrozenClock())
    store.set_semaphore("slot", 1)
    waiting = jobs(2, limits=SLOT)
    store._slots.held[semaphore_slot("slot")] += 1
    store.push(waiting)
    assert took(store) == []
    store.recover(limit=0)
    assert took(store) == [waiting[0].id]
