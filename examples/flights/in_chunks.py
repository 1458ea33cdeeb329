"""The flights once more, many in a job: the same functions, and the rate beside that of single items."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from flights.flight import clean, enrich, landed
from flights.source import Row, known
from flights.summary import Tally, summarise
from stanchion.app import Stanchion
from stanchion.pipelines import Pipeline

SIZE = 5_000
"""Flights in a chunk."""

THREADS = 2


@dataclass(frozen=True, slots=True)
class Chunked:
    """What came of the flights in chunks, in how many seconds. `total`: the sums over their results."""

    size: int
    seconds: float
    total: Tally

    @property
    def per_second(self) -> float:
        """Flights per second, from the first push to the last result."""
        return self.total.flights / self.seconds

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {"size": self.size, "seconds": self.seconds, "per_second": self.per_second, "total": asdict(self.total)}


class InChunks:
    """The stations for flights in chunks, in queues of their own, on an app that tells nobody of its events."""

    def __init__(self, app: Stanchion, prefix: str) -> None:
        self._app = Stanchion(app.url, store=app.store)
        self._flights = _stations(self._app, f"{prefix}-chunks")

    def delete_queues(self) -> None:
        """Delete all that is stored."""
        for queue in self._flights.queues:
            self._app.queue(queue).delete()

    def run(self, flights: Iterable[Row]) -> Chunked | None:
        """Bring all flights through. None where PyArrow, which makes chunks, is not installed."""
        if find_spec("pyarrow") is None:
            return None
        self.delete_queues()
        known()  # read before the time is taken, as for single flights
        began = time.perf_counter()
        self._flights.push_chunks(flights, size=SIZE)
        self._flights.run(THREADS, until_empty=True)
        seconds = time.perf_counter() - began
        summary = summarise(self._flights.queue("enriched"), {}, lambda _count: None)
        return Chunked(SIZE, seconds, summary.total)


def queues_of_chunks(prefix: str) -> list[str]:
    """Return the names of the queues of chunks beside those that begin so."""
    return [f"{prefix}-chunks.{station}" for station in ("raw", "clean", "enriched")]


def _stations(app: Stanchion, name: str) -> Pipeline:
    flights = app.pipeline(name)
    flights.station("raw", to="clean", max_attempts=1)(clean)
    flights.station("clean", to="enriched", max_attempts=1)(enrich)
    flights.station("enriched", max_attempts=1)(landed)
    return flights
