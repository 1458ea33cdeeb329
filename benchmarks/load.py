"""One load on one store, by the public API of the package in a given directory; prints its figures as JSON.

``python benchmarks/load.py SOURCE URL LOAD JOBS PID``: a program of its own, which any version of the package can run.
PID is the server's process, or 0.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple

import psutil

PAYLOAD = {"to": "somebody@example.org", "number": 123456}
LANES, TENANTS, CAPACITY = 16, 100, 64
PAUSE = 0.01
"""Seconds between two hand-overs, so that the waiting side is asleep."""


class Figures(NamedTuple):
    """What a load came to: jobs per second, and processor time of the caller and of the server, in µs for each job."""

    rate: float
    client: float
    server: float


class Load(NamedTuple):
    """What a load works on."""

    app: Any
    jobs: int
    server: psutil.Process | None

    def measure(self, work: Callable[[], Any]) -> Figures:
        """Do the work, and return its figures."""
        started, client, server = perf_counter(), process_time(), self._server_time()
        work()
        seconds = perf_counter() - started
        used = process_time() - client, self._server_time() - server
        client, server = (1e6 * each / self.jobs for each in used)
        return Figures(self.jobs / seconds, client, server)

    def push(self, options: Callable[[int], dict[str, Any]]) -> None:
        """Push the jobs, each with the options for its number."""
        from stanchion import Push  # of the version under test, which `main` puts first

        self.app.queue("jobs").push_many([Push(PAYLOAD, **options(number)) for number in range(self.jobs)])

    def reserve_and_commit(self, batch: int) -> Figures:
        """Reserve so many jobs at a time, and commit each by itself."""
        queue = self.app.queue("jobs")

        def work() -> None:
            while reserved := queue.reserve(batch):
                for job in reserved:
                    job.commit()

        return self.measure(work)

    def _server_time(self) -> float:
        """Return the processor time of the server in seconds, with that of the processes it started."""
        if self.server is None:
            return 0.0
        own = self.server.cpu_times()
        total: float = own.user + own.system + own.children_user + own.children_system
        for child in self.server.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                used = child.cpu_times()
                total += used.user + used.system
        return total


def single(load: Load) -> Figures:
    """Push jobs, each by itself."""
    queue = load.app.queue("jobs")
    return load.measure(lambda: [queue.push(PAYLOAD) for _ in range(load.jobs)])


def bulk(load: Load) -> Figures:
    """Push all jobs by one call."""
    return load.measure(lambda: load.app.queue("jobs").push_many([PAYLOAD] * load.jobs))


def drain(load: Load) -> Figures:
    """Run a task that does nothing, by a worker."""
    load.app.task(name="nothing", queue="jobs")(_nothing).enqueue_many([()] * load.jobs)
    return load.measure(lambda: load.app.run(["jobs"], until_empty=True))


def one(load: Load) -> Figures:
    """Reserve and commit jobs, one after the other."""
    load.app.queue("jobs").push_many([PAYLOAD] * load.jobs)
    return load.reserve_and_commit(1)


def limited(load: Load) -> Figures:
    """Reserve and commit jobs that need a slot of a semaphore."""
    load.app.semaphore("smtp", capacity=CAPACITY)
    load.push(lambda _number: {"limits": ["smtp"]})
    return load.reserve_and_commit(20)


def laned(load: Load) -> Figures:
    """Reserve and commit jobs of many tenants, in lanes."""
    load.app.queue("jobs").configure(lanes=LANES)
    load.push(lambda number: {"tenant": f"tenant {number % TENANTS}"})
    return load.reserve_and_commit(20)


def latency(load: Load) -> Figures:
    """Hand each job to a caller that waits for it: the median, as hand-overs per second."""
    queue, arrived = load.app.queue("jobs"), threading.Semaphore(0)
    seen: list[float] = []
    pushed: list[float] = []

    def wait_for_each() -> None:
        while len(seen) < load.jobs:
            if queue.pop(wait=5) is not None:
                seen.append(perf_counter())
                arrived.release()

    def hand_over() -> None:
        waiter = threading.Thread(target=wait_for_each)
        waiter.start()
        for _ in range(load.jobs):
            sleep(PAUSE)
            pushed.append(perf_counter())
            queue.push(PAYLOAD)
            arrived.acquire()
        waiter.join()

    figures = load.measure(hand_over)
    return figures._replace(rate=1 / median(end - start for start, end in zip(pushed, seen, strict=True)))


LOADS: dict[str, Callable[[Load], Figures]] = {
    load.__name__: load for load in (single, bulk, drain, one, limited, laned, latency)
}


def _nothing() -> None:
    """Do nothing."""


def main() -> None:
    """Run the load that the arguments name."""
    source, url, load, jobs, server = sys.argv[1:]
    sys.path.insert(0, source)
    from stanchion import Stanchion

    app = Stanchion(url)
    app.setup()
    figures = LOADS[load](Load(app, int(jobs), psutil.Process(int(server)) if int(server) else None))
    print(json.dumps(figures._asdict()))
    app.close()


if __name__ == "__main__":
    main()
