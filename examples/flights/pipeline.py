"""The pipeline of the demonstration at work: who runs its stations, and what is measured of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from flights.meter import Meter
from flights.source import Row, known
from flights.stations import ENRICHES, PER_BATCH, stations
from stanchion.app import Stanchion
from stanchion.jobs.insert import batches
from stanchion.jobs.job import Job
from stanchion.jobs.options import Push
from stanchion.pipelines import PipelineStatus
from stanchion.streams import forget
from stanchion.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 4
"""Threads of the worker."""

BATCH = 50
"""Flights that are pushed at once."""

_ON_THE_WAY = 500
"""So many flights are between the first queue and the last at most: the file is read no faster.

With Spark it is two of its batches.
"""

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
    """Flights at the stations, whose queues are made at the start; with `spark`, Spark enriches them."""

    def __init__(self, app: Stanchion, queues: Queues, spark: SparkSession | None = None) -> None:
        self._app, self.queues, self.spark = app, queues, spark
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
        self._flights = stations(app, queues.prefix)
        app.on("started")(self._begun)
        app.on("done")(self._passed)
        app.on("dead")(self._died)

    def delete_queues(self) -> None:
        """Delete all that the demonstration has stored."""
        for queue in self.queues:
            self._app.queue(queue).delete()
        forget(self._app.store, self.queues.clean)

    def run(self, flights: Iterable[Row], watch: Callable[[], None]) -> None:
        """Bring all flights through, and all alerts to an end; call `watch` several times a second meanwhile."""
        stop = threading.Event()
        feeding = threading.Thread(target=self._feed, args=(flights, stop), name="demo-feed")
        helpers = [feeding]
        worked = self._flights.queues
        if self.spark is None:
            known()  # read now, rather than by all threads at once
        else:
            helpers.append(threading.Thread(target=self._enrich, args=(self.spark, stop), name="demo-spark"))
            worked = [queue for queue in worked if queue != self.queues.clean]
        worker = Worker(self._app, queues=worked, threads=THREADS)
        began = time.perf_counter()
        try:
            worker.start()
            for helper in helpers:
                helper.start()
            while True:
                fed = not feeding.is_alive()
                status = self._flights.status()
                self._seen(status)
                watch()
                if self._trouble is not None:
                    raise self._trouble
                if fed and status.empty:
                    break
                time.sleep(_LOOK)
            self.seconds = time.perf_counter() - began
        finally:
            stop.set()
            worker.stop()
            for helper in helpers:
                if helper.ident is not None:
                    helper.join()
        watch()

    def _enrich(self, spark: SparkSession, stop: threading.Event) -> None:
        """Have Spark enrich flights. It has an app of its own: the worker's is tied to this process by its events."""
        from stanchion.spark.stations import engine as on_spark

        try:
            self.enrich.begin()
            with closing(Stanchion(self._app.url)) as app:
                on_spark.run(stations(app, self.queues.prefix), [ENRICHES], spark=spark, stop=stop)
        except Exception as error:  # it is raised where the run is waited for
            self._trouble = error

    def _seen(self, status: PipelineStatus) -> None:
        """Note what the store says of stations whose work is not told to this process."""
        found = {one.station: one for one in status.stations}
        self.raised = found["alerts"].came
        out = found[ENRICHES].out
        if self.spark is not None and out > self.enrich.jobs:
            self.enrich.passed(out - self.enrich.jobs)

    def _feed(self, flights: Iterable[Row], stop: threading.Event) -> None:
        try:
            self.feed.begin()
            most = _ON_THE_WAY if self.spark is None else 2 * PER_BATCH
            for batch in batches(flights, BATCH):
                while self.feed.jobs - self.land.jobs > most and not stop.wait(0.005):
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
