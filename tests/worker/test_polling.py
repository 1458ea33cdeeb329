"""Polling together: a fleet looks for work at one rate, whatever its size. On MariaDB, which has no other way."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from stanchion import Stanchion, Worker
from stanchion.stores.protocol import Listener, Store
from stanchion.stores.records.queues import QueueStats, Stat
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.registry import open_store
from tests.worker.conftest import until, working

POLL = 0.1
HEARTBEAT = 3.0
SECONDS = 4.0


class Observed:
    """A store that notes how often workers look for work, for how long they mean to wait, and how many they know of."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.polls = 0
        self.naps: list[float] = []
        self.live: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def stats(self, queues: Sequence[str], fields: Sequence[Stat]) -> dict[str, QueueStats]:
        self.polls += list(fields) == ["next_due"]
        return self._store.stats(queues, fields)

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        beat = self._store.beat(workers)
        self.live |= dict.fromkeys((worker.id for worker in workers), beat.live)
        return beat

    def listen(self, queues: Any, **options: Any) -> Listener:
        listener = self._store.listen(queues, **options)
        wait = listener.wait

        def noted(timeout: float) -> bool:
            self.naps.append(timeout)
            return wait(timeout)

        listener.wait = noted  # type: ignore[method-assign]
        return listener


@pytest.fixture
def store(mariadb_url: str) -> Iterator[Observed]:
    with closing(open_store(mariadb_url)) as store:
        store.setup()
        yield Observed(store)


STARTED = threading.Event()


@pytest.fixture
def app(store: Any) -> Stanchion:
    STARTED.clear()
    app = Stanchion(store=store)
    app.task(name="go", queue="orders")(STARTED.set)
    return app


@contextmanager
def fleet(app: Stanchion, store: Observed, size: int) -> Iterator[list[Worker]]:
    """Run idle workers that all know of each other."""
    with ExitStack() as stack:
        options: dict[str, Any] = {"threads": 1, "heartbeat": HEARTBEAT, "poll": POLL}
        workers = [stack.enter_context(working(app, ["orders"], **options)) for _ in range(size)]
        until(lambda: [store.live.get(worker.id) for worker in workers] == [size] * size)
        time.sleep(1.2 * POLL * size)  # what was begun with a smaller number is over
        yield workers


@pytest.mark.parametrize(
    "size", [pytest.param(1, marks=pytest.mark.nightly), 5, pytest.param(20, marks=pytest.mark.nightly)]
)
def test_a_fleet_polls_at_one_rate(app: Stanchion, store: Observed, size: int) -> None:
    with fleet(app, store, size):
        before, began = store.polls, time.monotonic()
        time.sleep(SECONDS)
        polls, seconds = store.polls - before, time.monotonic() - began
    # At the most, every worker's interval is the shortest, and one of its polls is at the very beginning.
    assert 0.05 * seconds / POLL <= polls <= seconds / POLL / 0.8 + size


@pytest.mark.parametrize("size", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_intervals_vary_by_a_fifth(app: Stanchion, store: Observed, size: int) -> None:
    with fleet(app, store, size):
        store.naps.clear()
        until(lambda: len(store.naps) >= 20)
        shares = [nap / (POLL * size) for nap in store.naps]
    assert min(shares) >= 0.8
    assert max(shares) <= 1.2
    assert max(shares) - min(shares) > 0.1


def test_a_dead_worker_falls_out_of_the_count(app: Stanchion, store: Observed, mariadb_url: str) -> None:
    code = (
        f"from stanchion import *; app = Stanchion({mariadb_url!r}); app.task(print); "
        f"Worker(app, ['orders'], heartbeat=0.5).run()"
    )
    with working(app, ["orders"], heartbeat=0.5) as worker, subprocess.Popen([sys.executable, "-c", code]) as other:
        try:
            until(lambda: store.live.get(worker.id) == 2)
        finally:
            other.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: store.live[worker.id] == 1)
        assert time.monotonic() - killed > 0.5  # three of its heartbeats, one of ours


def test_a_worker_that_leaves_is_not_counted(app: Stanchion, store: Observed) -> None:
    with working(app, ["orders"], heartbeat=0.5) as stays:
        with working(app, ["orders"], heartbeat=0.5):
            until(lambda: store.live.get(stays.id) == 2)
        until(lambda: store.live[stays.id] == 1)


def test_a_push_wakes_the_workers_of_its_own_process(app: Stanchion) -> None:
    with working(app, ["orders"], poll=60):
        time.sleep(0.5)
        app.enqueue("go", queue="orders")
        assert STARTED.wait(60)


def test_a_push_of_another_process_is_found_by_polling(app: Stanchion, mariadb_url: str) -> None:
    with working(app, ["orders"], poll=0.2), closing(open_store(mariadb_url)) as elsewhere:
        time.sleep(0.5)
        Stanchion(store=elsewhere).enqueue("go", queue="orders")
        assert STARTED.wait(60)
