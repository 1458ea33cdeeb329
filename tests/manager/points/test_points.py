"""A manager dies, or stops for longer than its lease, at each named point; then each job is done, and none runs twice.

Random kills rarely come at the moments that matter. The tests of dispatch go through the same points every day, in
virtual time and one process (`TestDeaths`); here they are processes, threads and a database.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.stores.records import calls
from stanchion.stores.rules.leases.sessions import SESSION
from stanchion.worker.worker import Worker
from tests.manager.points.program import POINTS
from tests.worker.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

LANES, JOBS, PRODUCERS = 8, 200, 2


class Process:
    """A manager in a process of its own."""

    def __init__(self, url: str, fate: str = "") -> None:
        command = [sys.executable, "-m", "tests.manager.points.program", "manager", "--json", "--log-level", "error"]
        self.process = subprocess.Popen(
            [*command, "--url", url, "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "FATE": fate},
        )

    def address(self) -> str:
        """Wait until it listens; return where."""
        assert self.process.stdout is not None
        return str(json.loads(self.process.stdout.readline())["listening"])

    def struck(self) -> bool:
        """Return True once it is dead or stopped."""
        looking = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, looking) is not None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(pg_store_url: str) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def one(fate: str = "") -> Process:
        started.append(Process(pg_store_url, fate))
        return started[-1]

    yield one
    for process in started:
        process.end()


def owners(app: Stanchion) -> Counter[str | None]:
    """Return how many slices each session alive owns."""
    alive = {value.name for value in app.store.values(SESSION)}
    return Counter(row.owner for row in map(slice_row, app.store.values(SLICE)) if row.owner in alive)


def produce(first: str, then: str, numbers: Iterator[int], enough: Callable[[int], bool], pushed: list[int]) -> None:
    """Push jobs to the first URL while it answers. One in three is due soon, so that it is stored as queued first."""
    with closing(Stanchion(first)) as app, closing(Stanchion(then)) as others:
        while not enough(number := next(numbers)):
            while True:
                try:
                    push(app, number)
                    break
                except StoreUnavailable:
                    app = others
            pushed.append(number)


def push(app: Stanchion, number: int) -> None:
    delay = 0.2 if number % 3 == 0 else 0.0
    app.enqueue("t", number, queue="orders", key=f"order {number}", key_ttl=3600, delay=delay)
    time.sleep(0.005)


@pytest.mark.parametrize("way", ["kill", "stop"])
@pytest.mark.parametrize("point", POINTS)
def test_each_job_runs_once(
    point: str, way: str, start: Callable[..., Process], pg_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CALL_SECONDS", 10.0)
    ran = Counter[int]()
    with closing(Stanchion(pg_store_url)) as watching:
        watching.queue("orders").configure(lanes=LANES)
        doomed, other = start(f"{way} {point} 3"), start()
        # Struck at its third slice, it may not listen yet.
        addresses = [other.address()] if point == "slice" else [doomed.address(), other.address()]
        url = "grpc://" + ",".join(addresses)
        if point != "slice":
            until(lambda: sorted(owners(watching).values()) == [LANES // 2, LANES // 2])
        with closing(Stanchion(url)) as app:

            @app.task(queue="orders", name="t")
            def task(number: int) -> None:
                ran[number] += 1

            worker = Worker(app, ["orders"], threads=4)
            struck, pushed, numbers = threading.Event(), list[int](), count()
            first = f"grpc://{addresses[0]}"
            until_struck = (first, url, numbers, lambda number: number >= JOBS and struck.is_set(), pushed)
            threads = [threading.Thread(target=produce, args=until_struck) for _ in range(PRODUCERS)]
            worker.start()
            try:
                for thread in threads:
                    thread.start()
                until(doomed.struck)
                struck.set()
                until(lambda: list(owners(watching).values()) == [LANES])
                doomed.process.send_signal(signal.SIGCONT)
                for thread in threads:
                    thread.join(120)
                until(lambda: watching.queue("orders").counts().committed == len(pushed))
            finally:
                struck.set()
                worker.stop(0)
        done = list(watching.queue("orders").find(state="done", limit=2 * len(pushed)))
        assert sorted(job.payload["args"][0] for job in done) == sorted(pushed)
        assert dict(ran) == dict.fromkeys(pushed, 1)
