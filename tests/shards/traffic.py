"""A program that pushes jobs, or works, and writes down their ids: `python -m tests.shards.traffic push|work LOG`."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from stanchion import Job, Stanchion
from stanchion.core.ids import new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import NewJob
from stanchion.worker.worker import Worker

QUEUE = "orders"


def push(app: Stanchion, log: int) -> None:
    """Push until SIGTERM; each batch again until it is acknowledged."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
    while not stopping:
        jobs = [NewJob(one, QUEUE, '{"args": []}', "note", key=one[-12:]) for one in new_ids(5)]
        again = False
        while True:
            try:
                app.store.push(jobs, repeat=again)
                break
            except StoreUnavailable:
                again = True
        os.write(log, "".join(f"{job.id}\n" for job in jobs).encode())
        time.sleep(0.02)


def work(app: Stanchion, log: int) -> None:
    """Work until SIGTERM."""

    @app.task(name="note", queue=QUEUE)
    def note(job: Job) -> None:
        os.write(log, f"{job.id}\n".encode())

    Worker(app, [QUEUE], threads=4).run()


def main(role: str, path: str, *_more: Any) -> None:
    """Do what the role says."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    app = Stanchion(os.environ["STANCHION_URL"])
    (push if role == "push" else work)(app, log)
    app.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
