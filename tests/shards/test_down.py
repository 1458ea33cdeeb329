"""A shard that is down: its partitions only are affected, and errors name it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from stanchion import Push, Stanchion, StoreUnavailable
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.shards.shard import Shard
from stanchion.stores.shards.store import ShardedStore
from stanchion_conformance.harness import new_job
from tests.shards.conftest import NewMap
from tests.worker.conftest import until, working

IN_ONE, IN_TWO = "orders#0", "orders#2"


@pytest.fixture
def halved(url: str, new_map: NewMap, closed_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stanchion]:
    """The app of a process that starts while the shard `two` is down."""
    with closing(Stanchion(url)) as before:
        before.queue("orders").push_many([Push({"n": n}) for n in range(80)])
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.5)
    with closing(Stanchion(new_map(two=f"postgresql://u:secret@127.0.0.1:{closed_port}/jobs"))) as app:
        yield app


def sharded(app: Stanchion) -> ShardedStore:
    store = app.store
    assert isinstance(store, PartitionedStore)
    assert isinstance(store.within, ShardedStore)
    return store.within


def two_of(app: Stanchion) -> Shard:
    return sharded(app)._fleet.of(IN_TWO)


def total(app: Stanchion, queue: str) -> int:
    return sharded(app).stats([queue], ["states"])[queue].states.total


def test_claims_take_the_jobs_of_the_other(halved: Stanchion) -> None:
    taken = [job for _ in range(20) for job in halved.queue("orders").reserve(10)]
    assert {job.partition for job in taken} == {0}
    assert len(taken) == total(halved, IN_ONE)


def test_the_error_names_it(halved: Stanchion) -> None:
    orders = halved.queue("orders")
    for ask in (orders.size, orders.find):
        with pytest.raises(StoreUnavailable, match=r"^shard 'two': ") as caught:
            ask()
        assert "secret" not in str(caught.value)


def test_a_push_stores_what_goes_elsewhere(halved: Stanchion) -> None:
    before = total(halved, IN_ONE)
    with pytest.raises(StoreUnavailable, match=r"^shard 'two': "):
        sharded(halved).push([new_job(queue=IN_TWO), new_job(queue=IN_ONE), new_job(queue=IN_TWO)])
    assert total(halved, IN_ONE) == before + 1
    with pytest.raises(StoreUnavailable, match=r"^shard 'two': "):
        halved.queue("orders").push_many([Push({}) for _ in range(40)])


def test_a_job_elsewhere_is_found(halved: Stanchion) -> None:
    job = halved.queue("others").push({})
    assert halved.get(job.id) is not None
    with pytest.raises(StoreUnavailable, match=r"^shard 'two': "):
        halved.get("0197f3a0-0000-7000-8000-000000000000")


def test_workers_live_on(halved: Stanchion) -> None:
    store = sharded(halved)
    assert store.beat([WorkerRow("w", "host", 1, ("orders",), 1, 10.0)]).live == 1
    assert [one.id for one in store.workers()] == ["w"]
    assert store.recover() == []
    assert store.maintain() == []
    store.leave("w")
    assert store.workers() == []


def test_claims_that_it_did_not_answer_are_given_back(app: Stanchion) -> None:
    app.queue("orders").push_many([Push({"n": n}) for n in range(40)])
    store, two = sharded(app), two_of(app)
    before = store.stats([IN_TWO], ["states"])[IN_TWO].states
    answered = two.store.claim

    def lost(claim: Claim) -> Any:
        answered(claim)
        raise StoreUnavailable("the reply is lost")

    two.store.claim = lost  # type: ignore[method-assign]
    assert store.claim(Claim(IN_TWO, 2, "first", worker="w")).rows == []
    assert store.stats([IN_TWO], ["states"])[IN_TWO].states.running == 2
    two.store.claim = answered  # type: ignore[method-assign]

    def given_back() -> bool:
        assert store.claim(Claim(IN_TWO, 0, "other", worker="w")).rows == []
        return store.stats([IN_TWO], ["states"])[IN_TWO].states == before

    until(given_back)


def test_live_workers_keep_their_jobs_after_an_outage(app: Stanchion) -> None:
    app.queue("orders").push_many([Push({"n": n}) for n in range(40)])
    store = sharded(app)
    mine = WorkerRow("mine", "host", 1, ("orders",), 1, 1e-6)
    other = replace(mine, id="other", heartbeat=10.0)
    store.beat([other])
    assert len(store.claim(Claim(IN_TWO, 2, "t", worker="other")).rows) == 2
    store.clock_offset = 100.0  # it was down for so long, and `other` has not beaten again
    store.beat([mine])
    assert store.recover() == []
    assert store.stats([IN_TWO], ["states"])[IN_TWO].states.running == 2


def test_outcomes_in_one_do_not_wait_for_the_other(app: Stanchion) -> None:
    orders, two = app.queue("orders"), two_of(app)
    task = app.task(name="noop", queue="orders")(lambda n: n)
    ids = [task.enqueue(n).id for n in range(60)]
    there = [job for job in orders.find(limit=60) if job.partition]
    settle = two.store.settle

    def refused(*_args: Any, **_named: Any) -> Any:
        raise StoreUnavailable("it is down")

    two.store.settle = refused  # type: ignore[method-assign]
    with working(app, ["orders"]):
        until(lambda: sharded(app).stats([IN_ONE], ["totals"])[IN_ONE].totals.committed == len(ids) - len(there))
        assert orders.counts().committed == len(ids) - len(there)
        two.store.settle = settle  # type: ignore[method-assign]
        until(lambda: orders.counts().committed == len(ids))
    assert orders.counts().rolled_back == 0
