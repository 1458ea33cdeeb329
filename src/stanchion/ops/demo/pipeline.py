"""The pipeline of the demonstration: its stations, what is measured of them, and the worker that runs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stanchion.app import Stanchion
from stanchion.job import Job
from stanchion.ops.demo.alerts import RETRY, Alert, tell, urgency
from stanchion.ops.demo.flight import Flight, clean, enrich, is_late, landed
from stanchion.ops.demo.meter import Meter
from stanchion.ops.demo.source import References, Row
from stanchion.pipeline import Send
from stanchion.queue import Push, batches
from stanchion.worker import Worker

THREADS = 4
"""Threads of the worker."""

BATCH = 50
"""Flights that are pushed at once."""

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

    @property
    def prefix(self) -> str:
        """What the names begin with: the name of the pipeline."""
        return self.raw.rpartition(".")[0]


class Pipeline:
    """Flights on their way through the stations, whose queues are made anew."""

    def __init__(self, app: Stanchion, queues: Queues, known: References) -> None:
        self._app, self.queues = app, queues
        self.delete_queues()
        self.feed, self.clean, self.enrich, self.land, self.alerts = (Meter() for _ in range(5))
        self.raised = 0
        self.seconds = 0.0
        self._trouble: BaseException | None = None
        self._meters = {
            queues.raw: self.clean,
            queues.clean: self.enrich,
            queues.enriched: self.land,
            queues.alerts: self.alerts,
        }
        self._flights = app.pipeline(queues.prefix)
        self._declare(known)
        app.on("start")(self._begun)
        app.on("success")(self._passed)
        app.on("dead")(self._died)

    def _declare(self, known: References) -> None:
        station = self._flights.station
        station("raw", to="clean", max_attempts=1)(clean)

        @station("clean", to=["enriched", "alerts"], max_attempts=1)
        def enriched(flight: Flight) -> list[Send]:
            sends = [Send("enriched", enrich(flight, known))]
            result = landed(sends[0].item)
            if is_late(result):
                minutes = result["arr_delay"] or 0
                alert: Alert = {"flight": result["flight"], "minutes": minutes}
                sends.append(Send("alerts", alert, priority=urgency(minutes)))
                self.raised += 1
            return sends

        station("enriched", max_attempts=1)(landed)
        station("alerts", retry=RETRY)(tell)

    def delete_queues(self) -> None:
        """Delete all that the demonstration has stored."""
        for queue in self.queues:
            self._app.queue(queue).delete()

    def run(self, flights: Iterable[Row], watch: Callable[[], None]) -> None:
        """Bring all flights through, and all alerts to an end; call `watch` several times a second meanwhile."""
        began = time.perf_counter()
        stop = threading.Event()
        feeding = threading.Thread(target=self._feed, args=(flights, stop), name="demo-feed")
        worker = Worker(self._app, queues=self._flights.queues, threads=THREADS)
        try:
            worker.start()
            feeding.start()
            while feeding.is_alive() or not self._flights.status().empty:
                watch()
                if self._trouble is not None:
                    raise self._trouble
                time.sleep(_LOOK)
        finally:
            stop.set()
            worker.stop()
        watch()
        self.seconds = time.perf_counter() - began

    def _feed(self, flights: Iterable[Row], stop: threading.Event) -> None:
        try:
            self.feed.begin()
            for batch in batches(flights, BATCH):
                while self.feed.jobs - self.land.jobs > _ON_THE_WAY and not stop.wait(0.001):
                    pass
                if stop.is_set():
                    return
                self._flights.push_many([Push(row, tenant=row["carrier"]) for row in batch])
                self.feed.passed(len(batch))
        except Exception as error:  # it is raised where the run is waited for
            self._trouble = error

    # -- what the worker tells

    def _begun(self, job: Job) -> None:
        self._meters[job.queue].begin([job.pickup_delay])

    def _passed(self, job: Job) -> None:
        self._meters[job.queue].passed()

    def _died(self, job: Job, error: Any) -> None:
        self._meters[job.queue].passed()
        if job.queue != self.queues.alerts:  # alerts may fail; a flight that can't be read ends the demonstration
            self._trouble = error
