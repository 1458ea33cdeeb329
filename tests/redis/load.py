"""Pushes and commits without a pause, and what was told of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Self

from stanchion.core.ids import new_id, new_ids
from stanchion.errors import StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.records.outcomes import Commit

BATCH = 5
PUSHERS, CLAIMERS = 2, 2


class Load:
    """Threads that push to a queue and work on it, each through a store of its own, while the block runs.

    `pushed` and `committed`: when each job was told to be, by its id, in seconds of the monotonic clock.
    """

    def __init__(self, open_store: Callable[[], Store], queue: str) -> None:
        self._open, self._queue = open_store, queue
        self._stopped = threading.Event()
        self._threads = [
            *(threading.Thread(target=self._run, args=(self._push,)) for _ in range(PUSHERS)),
            *(threading.Thread(target=self._run, args=(self._work,)) for _ in range(CLAIMERS)),
        ]
        self._errors: list[Exception] = []
        self.refused = 0
        self.pushed: dict[str, float] = {}
        self.committed: dict[str, float] = {}

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)
        if self._errors and error[0] is None:
            raise self._errors[0]

    def await_more(self, jobs: int, seconds: float = 120.0) -> None:
        """Wait until so many more jobs have been pushed, and one more committed."""
        pushed, committed, deadline = len(self.pushed) + jobs, len(self.committed) + 1, time.monotonic() + seconds
        while len(self.pushed) < pushed or len(self.committed) < committed:
            assert time.monotonic() < deadline, f"no {jobs} jobs within {seconds:g} s: {self._errors}"
            time.sleep(0.01)

    def _run(self, step: Callable[[Store], None]) -> None:
        with closing(self._open()) as store:
            while not self._stopped.is_set():
                try:
                    step(store)
                except StoreUnavailable:
                    self.refused += 1
                except Exception as error:
                    self._errors.append(error)
                    return

    def _push(self, store: Store) -> None:
        stored = store.push([NewJob(job, self._queue, '{"n":1}', key=job) for job in new_ids(BATCH)])
        self.pushed.update(dict.fromkeys((one.id for one in stored), time.monotonic()))

    def _work(self, store: Store) -> None:
        token = new_id()
        rows = store.claim(Claim(self._queue, 2 * BATCH, token, lease=60.0)).rows
        for row, state in zip(rows, store.settle([Commit(row.lease) for row in rows]), strict=True):
            if state == JobState.DONE:
                self.committed[row.id] = time.monotonic()
