"""The measurements of `bench`."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.errors import StanchionError
from stanchion.jobs.insert import BATCH
from stanchion.ops.cli.console.human import per_second

PREFIX = "stanchion-bench-"

_LONGEST_SINGLES = 3.0
_STALL_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.01

Advance = Callable[[int], None]
"""Called with the number of further jobs done."""


class Speed(NamedTuple):
    """A number of jobs in a number of seconds."""

    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Jobs per second."""
        return per_second(self.jobs, self.seconds)


class Latency(NamedTuple):
    """Measured seconds, ascending."""

    seconds: list[float]

    def within(self, share: float) -> float:
        """Return the quantile: the seconds that this share of the measurements did not exceed."""
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


class Bench:
    """Measures a store in its own queues, which it deletes at the end."""

    def __init__(self, app: Stanchion, threads: int) -> None:
        self._app = Stanchion(store=app.store, poll=context_of(app).poll)
        context_of(self._app).codec = context_of(app).codec
        self._threads = threads
        mark = secrets.token_hex(4)
        self._singles = self._app.queue(f"{PREFIX}single-{mark}")
        self._bulk = self._app.queue(f"{PREFIX}bulk-{mark}")
        self._lone = self._app.queue(f"{PREFIX}pickup-{mark}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for queue in (self._singles, self._bulk, self._lone):
            queue.delete()

    def enqueue_single(self, jobs: int, advance: Advance) -> Speed:
        """Enqueue one job per call, up to `jobs` of them or for 3 seconds."""
        done, began = 0, time.perf_counter()
        while done < jobs and (done == 0 or time.perf_counter() - began < _LONGEST_SINGLES):
            self._singles.push({"args": [done]})
            done += 1
            advance(1)
        return Speed(done, time.perf_counter() - began)

    def bulk_and_drain(self, jobs: int, enqueued: Advance, drained: Advance) -> tuple[Speed, Speed]:
        """Enqueue calls of an empty task in batches; then run them all with a worker."""
        ran: deque[None] = deque()

        @self._app.task(name=f"{PREFIX}nothing", queue=self._bulk.name)
        def nothing(_: int) -> None:
            ran.append(None)

        began = time.perf_counter()
        for first in range(0, jobs, BATCH):
            batch = range(first, min(jobs, first + BATCH))
            nothing.enqueue_many([(number,) for number in batch])
            enqueued(len(batch))
        bulk = Speed(jobs, time.perf_counter() - began)

        began = time.perf_counter()
        with self._worker(self._bulk.name):
            seen, deadline = 0, time.monotonic() + _STALL_SECONDS_MAX
            while len(ran) < jobs or self._bulk.size().total:
                time.sleep(_POLL_SECONDS)
                if len(ran) > seen:
                    deadline = time.monotonic() + _STALL_SECONDS_MAX
                drained(len(ran) - seen)
                seen = len(ran)
                if time.monotonic() > deadline:
                    raise StanchionError(
                        f"the worker ran {seen:,} of {jobs:,} jobs and then none for {_STALL_SECONDS_MAX:g} s: other "
                        f"workers may have taken them; stop those, or restrict them to their own queues"
                    )
            return bulk, Speed(jobs, time.perf_counter() - began)

    def pickup(self, jobs: int, advance: Advance) -> Latency:
        """Measure the time from enqueuing a job to the first line of its task, with an idle worker."""
        begun: deque[float] = deque()
        started = threading.Event()

        @self._app.task(name=f"{PREFIX}stamp", queue=self._lone.name)
        def stamp() -> None:
            begun.append(time.perf_counter())
            started.set()

        took = []
        with self._worker(self._lone.name):
            for number in range(jobs + 1):
                started.clear()
                before = time.perf_counter()
                stamp.enqueue()
                if not started.wait(_STALL_SECONDS_MAX):
                    raise StanchionError(
                        f"a job was not picked up within {_STALL_SECONDS_MAX:g} s; another worker may have taken it"
                    )
                if number:  # the first one warms up
                    took.append(begun[-1] - before)
                    advance(1)
                while self._lone.size().total:
                    time.sleep(_POLL_SECONDS)
        return Latency(sorted(took))

    @contextmanager
    def _worker(self, queue: str) -> Iterator[None]:
        from stanchion.worker import Worker

        worker = Worker(self._app, queues=[queue], threads=self._threads)
        worker.start()
        try:
            yield
        finally:
            worker.stop()
