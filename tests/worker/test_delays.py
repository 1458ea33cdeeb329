"""The pick-up delays that a worker tells of."""

from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.worker.claiming.pace import DELAYS_MAX, PickupDelays
from tests.worker.conftest import health, until, working


def test_the_latest_of_each_queue():
    store = MemoryStore(FrozenClock())
    delays = PickupDelays()
    now = store.now()
    store.push([NewJob(str(n), "q", "{}", run_at=now - n * SECOND) for n in range(DELAYS_MAX + 101)])
    store.push([NewJob("one", "other", "{}")])
    for queue in ("q", "other", "empty"):
        rows = store.claim(Claim(queue, 2 * DELAYS_MAX, "token")).rows
        delays.add(queue, rows)
    assert delays.figures() == {
        "q": {"jobs": DELAYS_MAX, "p50": 499.5, "p99": 989.01, "max": 999.0},  # the oldest came first
        "other": {"jobs": 1, "p50": 0.0, "p99": 0.0, "max": 0.0},
    }


def test_a_worker_tells_of_them(app):
    @app.task(queue="q")
    def task() -> None: ...

    with working(app, health_port=0) as worker:
        task.enqueue()
        until(lambda: health(worker)[1]["pickup_delay"])
        delay = health(worker)[1]["pickup_delay"]["q"]
        assert delay["jobs"] == 1
        assert 0 <= delay["p50"] == delay["p99"] == delay["max"] < 60
