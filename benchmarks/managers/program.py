"""A producer or a worker, as a process of its own; it prints JSON.

python -m benchmarks.managers.program push URL THREADS JOBS    waits for a line on its input before it begins
python -m benchmarks.managers.program work URL THREADS         until SIGTERM
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from stanchion import Stanchion

QUEUE = "measured"


def tasks(app: Stanchion) -> None:
    """Register the tasks of the measurements."""

    @app.task(name="nap", queue=QUEUE)
    def nap(seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    @app.task(name="tell", queue=QUEUE)
    def tell(expected_at: float) -> float:
        return time.time() - expected_at


def push(url: str, threads: int, jobs: int) -> None:
    """Push jobs singly, by several threads; print the seconds that it took, and those of processor time."""
    with closing(Stanchion(url)) as app, ThreadPoolExecutor(threads) as pool:
        queue = app.queue(QUEUE)
        for _ in range(5):
            queue.push(0)
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        began, used = time.time(), time.process_time()
        each = jobs // threads
        list(pool.map(lambda _: [queue.push(number) for number in range(each)], range(threads)))
        print(json.dumps({"began": began, "ended": time.time(), "cpu": time.process_time() - used}), flush=True)
        sys.stdin.readline()  # how long an app takes to close is not measured


def work(url: str, threads: int) -> None:
    """Work until a signal."""
    with closing(Stanchion(url)) as app:
        tasks(app)
        app.run([QUEUE], threads=threads)


if __name__ == "__main__":
    _, what, address, *numbers = sys.argv
    {"push": push, "work": work}[what](address, *map(int, numbers))
