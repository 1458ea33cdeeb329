"""What came of a run: figures per station, delays per carrier, and whether the counts agree."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from flights.in_chunks import Chunked
from flights.meter import Meter
from flights.pipeline import Pipeline
from flights.summary import Summary, Tally
from stanchion.app import Stanchion


@dataclass(frozen=True, slots=True)
class Line:
    """What one station did; times in seconds."""

    station: str
    route: str
    jobs: int
    per_second: float | None
    pickup_p50: float | None
    pickup_p99: float | None
    retries: int
    dead: int


class Check(NamedTuple):
    """Counts that must be equal, by what they count."""

    counts: dict[str, int]

    @property
    def ok(self) -> bool:
        """True when they are."""
        return len(set(self.counts.values())) == 1

    def __str__(self) -> str:
        if self.ok:
            return f"{next(iter(self.counts.values())):,} {' = '.join(self.counts)}"
        return ", ".join(f"{count:,} {what}" for what, count in self.counts.items())


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result of a run."""

    seconds: float
    stations: list[Line]
    summary: Summary
    chunked: Chunked | None
    checks: list[Check]

    @property
    def per_second(self) -> float:
        """Flights per second, one by one, from the first push to the last result."""
        return self.summary.total.flights / self.seconds

    @property
    def ok(self) -> bool:
        """True when every check is."""
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "ok": self.ok,
            "seconds": self.seconds,
            "stations": [asdict(line) for line in self.stations],
            "total": self.summary.total.as_json(),
            "carriers": {code: tally.as_json() for code, tally in sorted(self.summary.carriers.items())},
            "joined": dict(self.summary.joined),
            "chunks": None if self.chunked is None else self.chunked.as_json(),
            "checks": [{"ok": check.ok, "counts": check.counts} for check in self.checks],
        }


def report(app: Stanchion, pipeline: Pipeline, summary: Summary, chunked: Chunked | None) -> Report:
    """Put together what the store counted, the threads measured and the history holds."""

    queues = pipeline.queues

    def line(station: str, route: str, meter: Meter, queue: str | None = None) -> Line:
        counts = app.queue(queue).counts() if queue else None
        return Line(
            station,
            route,
            meter.jobs,
            meter.rate,
            meter.delays.within(0.5),
            meter.delays.within(0.99),
            retries=counts.rolled_back + counts.expired if counts else 0,
            dead=counts.buried if counts else 0,
        )

    return Report(
        pipeline.seconds,
        [
            line("feed", "file → raw", pipeline.feed),
            line("clean", "raw → clean", pipeline.clean, queues.raw),
            line("enrich", f"clean → enriched{', Spark' if pipeline.spark else ''}", pipeline.enrich, queues.clean),
            line("land", "enriched → history", pipeline.land, queues.enriched),
            line("alerts", "alerts → history", pipeline.alerts, queues.alerts),
        ],
        summary,
        chunked,
        [*checks(app, pipeline, summary), *([] if chunked is None else _same(summary.total, chunked.total))],
    )


def _same(alone: Tally, in_chunks: Tally) -> list[Check]:
    """Compare the sums over single flights with those over the flights in chunks."""
    return [
        Check({"flights one by one": alone.flights, "in chunks": in_chunks.flights}),
        Check({"minutes of delay one by one": alone.arr_delays, "in chunks": in_chunks.arr_delays}),
    ]


def checks(app: Stanchion, pipeline: Pipeline, summary: Summary) -> list[Check]:
    """Compare the counts that the store, the threads and the history hold of the same things."""
    raw, clean, enriched, alerts, _ = (app.queue(name).counts() for name in pipeline.queues)
    letters = app.queue(pipeline.queues.dead).size().total
    return [
        Check(
            {
                "flights read": pipeline.feed.jobs,
                "pushed": raw.pushed,
                "cleaned": raw.moved,
                "enriched": clean.moved,
                "landed": enriched.committed,
                "in history": summary.total.flights,
            }
        ),
        Check(
            {
                "flights over an hour late": summary.total.late,
                "alerts": alerts.pushed,
                f"done ({alerts.committed:,}) or dead ({letters:,})": alerts.committed + letters,
            }
        ),
        Check({"alerts given up": alerts.buried, f"dead letters in {pipeline.queues.dead}": letters}),
    ]
