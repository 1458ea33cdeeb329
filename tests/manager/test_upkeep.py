"""The upkeep by managers: where no worker is left alive, its jobs come back all the same."""

from __future__ import annotations

from contextlib import closing

import pytest

from stanchion import Stanchion
from stanchion.context import steadiness
from stanchion.core.ids import new_token
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.workers import WorkerRow
from stanchion.worker import reaper
from stanchion_conformance.harness import new_job
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until

HEARTBEAT = 1.0

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steadiness, "RETURN", 0.5)
    monkeypatch.setattr(reaper, "MAINTAIN_EVERY", 0.5)


def test_jobs_of_a_worker_that_died_go_back() -> None:
    store = MemoryStore()
    store.beat([WorkerRow("w", "host", 1, ("orders",), 1, heartbeat=0.1)])
    job = new_job(max_attempts=3)
    store.push([job])
    assert store.claim(Claim("orders", 1, new_token(), worker="w")).rows
    with ManagerThread(store, heartbeat=HEARTBEAT), closing(Stanchion(store=store)) as app:
        until(lambda: (found := app.get(job.id)) is not None and found.state == "ready")


def test_history_is_purged() -> None:
    store = MemoryStore()
    store.configure("orders", {"history_ttl": 0.01})
    store.push([new_job()])
    rows = store.claim(Claim("orders", 1, new_token())).rows
    store.settle([Commit(rows[0].lease)])
    assert store.fetch([rows[0].id])
    with ManagerThread(store, heartbeat=HEARTBEAT):
        until(lambda: not store.fetch([rows[0].id]))


def test_history_is_purged_by_outcome_and_number() -> None:
    with ManagerThread(MemoryStore(), heartbeat=HEARTBEAT) as manager, closing(Stanchion(manager.url)) as app:
        orders = app.queue("orders", history_ttl={"done": 0.01, "default": "1h"}, history_max=3)
        jobs = [orders.push(number) for number in range(6)]
        for number, job in enumerate(orders.reserve(6)):
            job.bury("broken") if number < 4 else job.commit()
        assert orders.settings.shorter_ttls == {"done": 0.01}
        until(lambda: len(orders.history()) == 3)
        assert [job.id for job in orders.history()] == [job.id for job in reversed(jobs[1:4])]


def test_none_goes_back_right_after_the_start() -> None:
    store = MemoryStore()
    asked: list[int | None] = []
    recover = store.recover

    def recording(limit: int = 500, as_of: int | None = None) -> list[object]:
        asked.append(as_of)
        return recover(limit, as_of)  # type: ignore[return-value]

    store.recover = recording  # type: ignore[assignment]
    with ManagerThread(store, heartbeat=HEARTBEAT):
        until(lambda: None not in asked[-1:] and len(asked) > 1)
    assert asked[0] is None  # live workers may look dead: an outage may have just ended
