"""Idle queues cost a SQL database nothing of their own: upkeep asks for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text

from stanchion import Stanchion
from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import CursorRunner
from stanchion.stores.sql.store import SqlStore
from stanchion.telemetry.rollups import Rollups

FEW, MANY = 10, 150


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The statements that ran, of all stores."""
    ran: list[Any] = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(CursorRunner, name)

        def run(self: CursorRunner, statement: Any, *given: Any) -> Any:
            ran.append(statement)
            return real(self, statement, *given)

        return run

    for name in ("execute", "_send_each"):
        monkeypatch.setattr(CursorRunner, name, noted(name))
    return ran


def idle_queues(store: Store, first: int, end: int) -> list[str]:
    """Make queues that others use: some keep history for a short time, each has had a job and has a scheduled one."""
    names = [f"idle {number}" for number in range(first, end)]
    queues = Stanchion(store=store).queue
    for name in names:
        store.configure(name, {"lease": 31.0})
        queues(name).push(1)
        queues(name).push(2, delay=3600)
        (job,) = queues(name).reserve(1)
        job.commit()
    return names


@pytest.mark.one_in_each("what", "url")
@pytest.mark.parametrize("what", ["recover", "maintain", "looks", "figures"])
def test_upkeep_beside_many_idle_queues_runs_as_many_statements_as_beside_few(
    url: str, statements: list[Any], what: str
) -> None:
    with closing(open_store(url)) as store:

        def cost(queues: list[str]) -> int:
            figures = Rollups()
            works: dict[str, Callable[[], object]] = {
                "recover": store.recover,
                "maintain": store.maintain,
                "looks": lambda: store.stats(queues, ["next_due", "states"]),
                "figures": lambda: figures.take(store),
            }
            store.maintain()  # the first one folds the counts
            store.clock_offset += 60
            figures.take(store)  # the first ones of each queue are kept
            store.clock_offset += 60
            statements.clear()
            works[what]()
            return len(statements)

        store.clock_offset += 3600 - store.now() / SECOND % 3600  # each hour begins with the figures of all queues
        few = idle_queues(store, 0, FEW)
        beside_few = cost(few)
        beside_many = cost(few + idle_queues(store, FEW, MANY))
    assert 0 < beside_many <= beside_few


def test_upkeep_finds_the_queues_whose_stored_shape_claims_too_little(url: str) -> None:
    needs: dict[str, dict[str, Any]] = {"laned": {"lane": 3}, "keyed": {"order_key": "k"}, "plain": {}}
    forget = text("UPDATE stanchion_queues SET uses_lanes = :none, uses_slots = :none")
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        idle_queues(store, 0, FEW)
        for queue, options in needs.items():
            store.push([NewJob(job, queue, "1", **options) for job in new_ids(2)])
        store.push([NewJob(job, "laned", "1") for job in new_ids(2)])
        store.database.write(lambda run, _again: run.change(forget, {"none": False}))
        store.maintain()
        shapes = {one.name: one.shape for one in store.queues() if one.shape != "plain"}
    assert shapes == {"laned": "lanes", "keyed": "slots"}
