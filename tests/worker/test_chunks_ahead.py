"""How many chunks a worker reserves ahead, and holds in memory."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Abandon, Commit, Move, Outcome, Pass, Rollback
from stanchion.stores.rules.lifecycle.weights import bytes_of
from stanchion.worker.claiming.pace import Prefetch
from stanchion.worker.claiming.portions import FEW, Portions
from stanchion.worker.finisher import BYTES, Finisher
from stanchion.worker.health import Health
from stanchion.worker.running.attempt import Attempt
from tests.worker.conftest import Faulty, until, working


def flows_through(app: Stanchion) -> Any:
    etl = app.pipeline("etl")

    @etl.station("raw")
    def raw(item: object) -> None: ...

    return etl


def test_a_claim_from_a_queue_with_chunks_asks_for_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    store = Faulty(Stanchion("memory://").store, "stats")
    with Stanchion(store=store) as app:
        etl = flows_through(app)
        some = Portions(app._context, 8)
        assert [some.of("etl.raw", wanted) for wanted in (FEW, FEW + 1, 500)] == [FEW, FEW + 1, 500]
        assert some.of("tasks", 500) == 500
        assert store.calls["stats"] == 1
        etl.push_chunks(range(10), size=5)
        assert some.of("etl.raw", 500) == 500
        now[0] += 0.3
        assert [some.of("etl.raw", wanted) for wanted in (20, 500)] == [20, FEW]
        assert store.calls["stats"] == 2
        assert Portions(app._context, 100).of("etl.raw", 500) == 100
        etl.drain()
        now[0] += 0.3
        assert some.of("etl.raw", 500) == 500


def test_a_store_that_cannot_tell_whether_there_are_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager of an older version does not know the figure."""
    monkeypatch.setattr(Prefetch, "jobs", lambda *_: 500)
    store = Faulty(Stanchion("memory://").store, "stats")
    with Stanchion(store=store) as app:
        etl = flows_through(app)
        etl.push_many([{"n": n} for n in range(100)])
        store.broken, store.error = True, InvalidInput("field 'chunks' is unknown")
        with working(app, ["etl.raw"]):
            until(lambda: len(etl.queue("raw").find(state="done", limit=200)) == 100)
        assert Portions(app._context, 8).of("etl.raw", 500) == FEW
        store.error = StoreUnavailable("gone")
        with pytest.raises(StoreUnavailable):
            Portions(app._context, 8).of("etl.raw", 500)


def test_chunks_behind_quick_items_are_claimed_by_the_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prefetch, "jobs", lambda *_: 500)
    with Stanchion("memory://") as app:
        etl = flows_through(app)
        etl.push_many([{"n": n} for n in range(100)])
        etl.push_chunks(range(400), size=2)
        claims: list[Claimed] = []
        claim = app.store.claim

        def noted(one: Claim) -> Claimed:
            claims.append(claim(one))
            return claims[-1]

        monkeypatch.setattr(app.store, "claim", noted)
        with working(app, ["etl.raw"]):
            until(lambda: app.queue("etl.raw").counts().committed == 500)
        assert max(len(one.rows) for one in claims) <= FEW


def test_prefetch_is_bounded_by_the_bytes_of_chunks() -> None:
    prefetch = Prefetch()
    prefetch.jobs(0, 0.0)
    assert prefetch.jobs(10_000, 1.0) == 500
    prefetch.claimed(-1, 2.0**20)
    assert prefetch.jobs(20_000, 2.0) == 16
    prefetch.claimed(-1)
    assert prefetch.jobs(30_000, 3.0) == 500


def test_outcomes_of_chunks_are_stored_by_their_bytes() -> None:
    def moves(app: Stanchion, size: int) -> list[str]:
        finisher = Finisher(app._context, Health(60.0), lambda _: None)
        finisher.weighs = True
        finisher.put([(Move(Lease("q", str(n), ""), "r", bytes(size)), None, None) for n in range(5)])
        sizes = []
        while finisher._pending:
            sizes.append([outcome.lease.id for outcome, _, _ in finisher._gather() if outcome is not None])
        assert finisher.received == 5
        return [" ".join(some) for some in sizes]

    with Stanchion("memory://") as app:
        assert moves(app, 1) == ["0 1 2 3 4"]
        assert moves(app, BYTES // 2) == ["0 1", "2 3", "4"]
        assert moves(app, 2 * BYTES) == ["0", "1", "2", "3", "4"]


def test_the_weight_of_an_outcome() -> None:
    lease, part = Lease("q", "1", "t"), NewJob("2", "q", b"12345")
    weights: list[tuple[Outcome | None, int]] = [
        (Commit(lease, b"12", b"123", (part, part)), 15),
        (Commit(lease, "a single result"), 0),
        (Rollback(lease, 0.0, payload=b"1234"), 4),
        (Pass(lease, (), Commit(lease, b"12"), b"1"), 3),
        (Abandon(lease), 0),
        (None, 0),
    ]
    assert [bytes_of(outcome) for outcome, _ in weights] == [weight for _, weight in weights]


def test_the_worker_weighs_outcomes_once_it_has_chunks() -> None:
    with Stanchion("memory://") as app:
        etl = flows_through(app)
        with working(app, ["etl.raw"]) as worker:
            finisher = worker._finisher
            etl.push({"n": 1})
            until(lambda: app.queue("etl.raw").counts().committed == 1)
            assert not finisher.weighs
            etl.push_chunks(range(5))
            until(lambda: app.queue("etl.raw").counts().committed == 6)
            assert finisher.weighs


def test_a_chunk_leaves_the_memory_when_it_has_ended() -> None:
    with Stanchion("memory://") as app:
        etl = flows_through(app)
        etl.push_chunks(range(100), size=5)
        gc.collect()
        gc.disable()
        try:
            with working(app, ["etl.raw"]):
                until(lambda: app.queue("etl.raw").counts().committed == 100)
                until(lambda: not [one for one in gc.get_objects() if type(one) is Attempt and one.row.items])
        finally:
            gc.enable()
