"""Delays per carrier, computed from the results in the history of the last queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flights.flight import Landed, is_late
from stanchion.jobs.job import JobState
from stanchion.queues.queue import Queue

_PAGE = 5000


@dataclass(slots=True)
class Tally:
    """The flights of one carrier; delays in minutes."""

    name: str
    flights: int = 0
    cancelled: int = 0
    departed: int = 0
    dep_delays: int = 0
    arrived: int = 0
    arr_delays: int = 0
    late: int = 0

    def add(self, result: Landed) -> None:
        """Count one flight."""
        self.flights += 1
        self.cancelled += result["cancelled"]
        self.late += is_late(result["arr_delay"])
        if result["dep_delay"] is not None:
            self.departed += 1
            self.dep_delays += result["dep_delay"]
        if result["arr_delay"] is not None:
            self.arrived += 1
            self.arr_delays += result["arr_delay"]

    @property
    def mean_dep_delay(self) -> float | None:
        """Of the flights that left; negative when they left early."""
        return self.dep_delays / self.departed if self.departed else None

    @property
    def mean_arr_delay(self) -> float | None:
        """Of the flights that arrived."""
        return self.arr_delays / self.arrived if self.arrived else None

    @property
    def late_share(self) -> float:
        """The share of all flights that arrived over an hour late."""
        return self.late / self.flights if self.flights else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "name": self.name,
            "flights": self.flights,
            "cancelled": self.cancelled,
            "mean_dep_delay": self.mean_dep_delay,
            "mean_arr_delay": self.mean_arr_delay,
            "late": self.late,
            "late_share": self.late_share,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """All flights, those of each carrier, and how many were joined with what."""

    total: Tally
    carriers: dict[str, Tally]
    joined: Counter[str]


def summarise(queue: Queue, names: Mapping[str, str], advance: Callable[[int], None]) -> Summary:
    """Read the results of a queue, a page at a time; `advance` is told how many more are counted."""
    summary = Summary(Tally("all"), {}, Counter())
    for page in _results(queue):
        for result in page:
            code = result["carrier"]
            if code not in summary.carriers:
                summary.carriers[code] = Tally(names.get(code, code))
            summary.carriers[code].add(result)
            summary.total.add(result)
            summary.joined.update(result["joined"])
        advance(len(page))
    return summary


def _results(queue: Queue) -> Iterator[list[Landed]]:
    after: str | None = None
    while page := queue.find(state=JobState.DONE, limit=_PAGE, after=after):
        yield [result for job in page for result in ([job.result] if job.items is None else job.result)]
        after = page[-1].id
