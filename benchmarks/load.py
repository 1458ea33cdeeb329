"""One load on one store, by the public API of the package in a given directory; prints jobs per second.

``python benchmarks/load.py SOURCE URL LOAD JOBS``: a program of its own, which any version of the package can run.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep
from typing import Any

PAYLOAD = {"to": "somebody@example.org", "number": 123456}
LANES, TENANTS, CAPACITY = 16, 100, 64
PAUSE = 0.01
"""Seconds between two hand-overs, so that the waiting side is asleep."""


def single(app: Any, jobs: int) -> float:
    """Push jobs, each by itself."""
    queue = app.queue("jobs")
    return per_second(jobs, lambda: [queue.push(PAYLOAD) for _ in range(jobs)])


def bulk(app: Any, jobs: int) -> float:
    """Push all jobs by one call."""
    return per_second(jobs, lambda: app.queue("jobs").push_many([PAYLOAD] * jobs))


def drain(app: Any, jobs: int) -> float:
    """Run a task that does nothing, by a worker."""
    app.task(name="nothing", queue="jobs")(_nothing).enqueue_many([()] * jobs)
    return per_second(jobs, lambda: app.run(["jobs"], until_empty=True))


def one(app: Any, jobs: int) -> float:
    """Reserve and commit jobs, one after the other."""
    app.queue("jobs").push_many([PAYLOAD] * jobs)
    return _reserve_and_commit(app, jobs, 1)


def limited(app: Any, jobs: int) -> float:
    """Reserve and commit jobs that need a slot of a semaphore."""
    app.semaphore("smtp", capacity=CAPACITY)
    _push(app, jobs, lambda _number: {"limits": ["smtp"]})
    return _reserve_and_commit(app, jobs, 20)


def laned(app: Any, jobs: int) -> float:
    """Reserve and commit jobs of many tenants, in lanes."""
    app.queue("jobs").configure(lanes=LANES)
    _push(app, jobs, lambda number: {"tenant": f"tenant {number % TENANTS}"})
    return _reserve_and_commit(app, jobs, 20)


def latency(app: Any, jobs: int) -> float:
    """Hand each job to a caller that waits for it: the median, as hand-overs per second."""
    queue, arrived = app.queue("jobs"), threading.Semaphore(0)
    seen: list[float] = []

    def wait_for_each() -> None:
        while len(seen) < jobs:
            if queue.pop(wait=5) is not None:
                seen.append(perf_counter())
                arrived.release()

    waiter = threading.Thread(target=wait_for_each)
    waiter.start()
    pushed: list[float] = []
    for _ in range(jobs):
        sleep(PAUSE)
        pushed.append(perf_counter())
        queue.push(PAYLOAD)
        arrived.acquire()
    waiter.join()
    return 1 / median(end - start for start, end in zip(pushed, seen, strict=True))


LOADS: dict[str, Callable[[Any, int], float]] = {
    load.__name__: load for load in (single, bulk, drain, one, limited, laned, latency)
}


def per_second(jobs: int, work: Callable[[], Any]) -> float:
    """Do some work; return how many jobs of it a second does."""
    started = perf_counter()
    work()
    return jobs / (perf_counter() - started)


def _push(app: Any, jobs: int, options: Callable[[int], dict[str, Any]]) -> None:
    from stanchion import Push  # of the version under test, which `main` puts first

    app.queue("jobs").push_many([Push(PAYLOAD, **options(number)) for number in range(jobs)])


def _reserve_and_commit(app: Any, jobs: int, batch: int) -> float:
    queue = app.queue("jobs")

    def work() -> None:
        while reserved := queue.reserve(batch):
            for job in reserved:
                job.commit()

    return per_second(jobs, work)


def _nothing() -> None:
    """Do nothing."""


def main() -> None:
    """Run the load that the arguments name."""
    source, url, load, jobs = sys.argv[1:]
    sys.path.insert(0, source)
    from stanchion import Stanchion

    app = Stanchion(url)
    app.setup()
    print(json.dumps(LOADS[load](app, int(jobs))))
    app.close()


if __name__ == "__main__":
    main()
