"""A process that pushes batches of jobs until it is told to stop: `python -m tests.crash.producer SETTINGS`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stanchion.core.ids import new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed
from tests.crash.journal import Journal
from tests.crash.recording import recorded

QUEUE = "crash"


@dataclass(frozen=True)
class Pushing:
    """What to push: `batches` of `size` jobs that run for `seconds`, with `pause` seconds between."""

    batches: int = 1_000_000
    size: int = 5
    pause: float = 0.05
    seconds: float = 0.0
    repeats: bool = True
    """Push a batch again, under its ids, until its storing is acknowledged; else go on to the next."""


def new_batch(size: int, seconds: float, **fields: Any) -> list[NewJob]:
    """Return jobs to push."""
    return [NewJob(job_id, QUEUE, json.dumps({"args": [seconds]}), "work", **fields) for job_id in new_ids(size)]


def main(text: str) -> int:
    """Push until all is pushed, or SIGTERM; any error but StoreUnavailable ends the process."""
    pushing = Pushing(**json.loads(text))
    stopping: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    store = open_store(os.environ["STANCHION_URL"])
    recording = recorded(doomed(store, os.environ.get("CRASH_FATE")), Journal(Path(os.environ["CRASH_JOURNAL"])))
    for _ in range(pushing.batches):
        batch = new_batch(pushing.size, pushing.seconds)
        while not stopping:
            try:
                recording.push(batch)
                break
            except StoreUnavailable:
                if not pushing.repeats:
                    break
        if stopping:
            break
        time.sleep(pushing.pause)
    store.close()
    return 0


def settings(pushing: Pushing) -> str:
    """Return the settings as the argument of a process."""
    return json.dumps(asdict(pushing))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
