"""A station: one consumer thread that takes jobs from a queue in batches and passes them on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from stanchion.app import Stanchion
from stanchion.errors import CannotJoin
from stanchion.ops.demo.meter import Meter
from stanchion.patience import patiently
from stanchion.queue import Queue
from stanchion.reservation import Reservation

T = TypeVar("T")

BATCH = 50
"""Jobs reserved at once, and passed on in one transaction."""

_WAIT = 0.2
_PATIENCE = 10.0


class Station(Generic[T]):
    """Takes the jobs of a queue until the one who fills it has ended and nothing is left.

    `work` makes something of a payload; `pass_on` then moves or commits the job, in the transaction given.
    """

    def __init__(
        self, app: Stanchion, queue: Queue, work: Callable[[Any], T], pass_on: Callable[[Reservation, T, Any], None]
    ) -> None:
        self._app, self._queue, self._work, self._pass_on = app, queue, work, pass_on
        self.meter = Meter()
        self.ended = threading.Event()

    def run(self, upstream: threading.Event, stop: threading.Event) -> None:
        """Work until all is through, or until told to stop."""
        while not stop.is_set():
            last = upstream.is_set()
            jobs = self._queue.reserve(BATCH, wait=0 if last else _WAIT)
            if jobs:
                self._take(jobs)
            elif last and not self._queue.size().total:
                self.ended.set()
                return

    def _take(self, jobs: list[Reservation]) -> None:
        self.meter.begin(job.pickup_delay for job in jobs)
        done = [(job, self._work(job.payload)) for job in jobs]
        # A transaction that others were in the way of is made anew; where each step stands alone, so does its failure.
        patience = _PATIENCE if self._app.store.capabilities.joins_transactions else 0
        patiently(lambda _repeat: self._pass(done), time.monotonic() + patience)
        self.meter.passed(len(jobs))

    def _pass(self, done: list[tuple[Reservation, T]]) -> None:
        with joint(self._app) as tx:
            for job, value in done:
                self._pass_on(job, value, tx)


@contextmanager
def joint(app: Stanchion) -> Iterator[Any]:
    """Open a transaction for many steps; None, so that each step stands alone, where the store has none."""
    try:
        transaction = app.transaction()
    except CannotJoin:
        yield None
        return
    with transaction as tx:
        yield tx
