"""The queues of the demonstration, the threads between them, and the worker for the alerts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from stanchion.app import Stanchion
from stanchion.ops.demo.alerts import Alerts
from stanchion.ops.demo.flight import Flight, Landed, clean, enrich, is_late, landed
from stanchion.ops.demo.meter import Meter
from stanchion.ops.demo.source import References, Row
from stanchion.ops.demo.station import BATCH, Station
from stanchion.queue import Push, batches
from stanchion.reservation import Reservation
from stanchion.worker import Worker

THREADS = 4
"""Threads of the worker."""

_ON_THE_WAY = 500
"""So many flights are between the first queue and the last at most: the file is read no faster."""

_LOOK = 0.1


class Queues(NamedTuple):
    """The names of the queues."""

    raw: str
    clean: str
    enriched: str
    alerts: str
    dead: str

    @classmethod
    def of(cls, prefix: str) -> Queues:
        """Return names that begin so."""
        return cls(*(f"{prefix}.{field}" for field in cls._fields))


class Pipeline:
    """Flights on their way through the queues, which are made anew."""

    def __init__(self, app: Stanchion, queues: Queues, known: References) -> None:
        self._app, self.queues = app, queues
        self.delete_queues()
        app.queue(queues.alerts).configure(dead_letter=queues.dead)
        self.alerts = Alerts(app, queues.alerts)
        self.feed = Meter()
        self.clean: Station[Flight] = Station(
            app, app.queue(queues.raw), clean, lambda job, flight, tx: job.move(queues.clean, payload=flight, tx=tx)
        )
        self.enrich: Station[Flight] = Station(
            app,
            app.queue(queues.clean),
            lambda flight: enrich(flight, known),
            lambda job, flight, tx: job.move(queues.enriched, payload=flight, tx=tx),
        )

        def land(job: Reservation, result: Landed, tx: Any) -> None:
            if is_late(result):
                self.alerts.enqueue(result, tx)
            job.commit(result, tx=tx)

        self.land: Station[Landed] = Station(app, app.queue(queues.enriched), landed, land)
        self.seconds = 0.0

    def delete_queues(self) -> None:
        """Delete all that the demonstration has stored."""
        for queue in self.queues:
            self._app.queue(queue).delete()

    def run(self, flights: Iterable[Row], watch: Callable[[], None]) -> None:
        """Bring all flights through, and all alerts to an end; call `watch` several times a second meanwhile."""
        began = time.perf_counter()
        stop, fed = threading.Event(), threading.Event()
        worker = Worker(self._app, queues=[self.queues.alerts], threads=THREADS)
        with ThreadPoolExecutor(thread_name_prefix="demo") as pool:
            try:
                worker.start()
                threads = [
                    pool.submit(self._feed, flights, fed, stop),
                    pool.submit(self.clean.run, fed, stop),
                    pool.submit(self.enrich.run, self.clean.ended, stop),
                    pool.submit(self.land.run, self.enrich.ended, stop),
                ]
                _attend(threads, watch)
                while self._app.queue(self.queues.alerts).size().total:
                    watch()
                    time.sleep(_LOOK)
            finally:
                stop.set()
                worker.stop()
        watch()
        self.seconds = time.perf_counter() - began

    def _feed(self, flights: Iterable[Row], fed: threading.Event, stop: threading.Event) -> None:
        queue = self._app.queue(self.queues.raw)
        self.feed.begin()
        for batch in batches(flights, BATCH):
            while self.feed.jobs - self.land.meter.jobs > _ON_THE_WAY:
                time.sleep(0.001)
                if stop.is_set():
                    return
            queue.push_many([Push(row, tenant=row["carrier"]) for row in batch])
            self.feed.passed(len(batch))
        fed.set()


def _attend(threads: list[Future[None]], watch: Callable[[], None]) -> None:
    """Wait until all have ended; raise what one of them raised."""
    running = set(threads)
    while running:
        ended, running = wait(running, _LOOK, FIRST_EXCEPTION)
        for thread in ended:
            thread.result()
        watch()
