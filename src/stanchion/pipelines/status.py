"""The status of a pipeline: the depths and totals of its stations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from stanchion.pipelines.station import Station
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import EMPTY, Counts, Sizes


class Passed(NamedTuple):
    """The items of a station so far: `came`, and of these `out`, `dropped`, `dead`; `retried`: failed attempts."""

    came: int
    out: int
    dropped: int
    retried: int
    dead: int


def passed(counts: Counts, depth: Sizes, *, ends: bool) -> Passed:
    """Return the figures of a station's items. `ends`: items that it finishes are output."""
    finished = counts.committed + counts.popped
    out, dropped = counts.moved, counts.cancelled
    if ends:
        out += finished
    else:
        dropped += finished
    failed = counts.rolled_back + counts.expired
    return Passed(out + dropped + counts.buried + depth.total, out, dropped, failed, counts.buried)


def per_job(items: Sizes, jobs: Sizes) -> float | None:
    """Return the items that a job carries on average; None without jobs."""
    return items.total / jobs.total if jobs.total else None


@dataclass(frozen=True, slots=True)
class StationStatus:
    """One station at one moment.

    `depth`: its live items; `jobs`: the jobs that carry them, fewer where it has chunks. `came`: items that have
    entered so far; `out`: items that moved on, or finished at an end station; `dropped`: items dropped or cancelled;
    `retried`: failed attempts; `dead`: dead letters. `oldest`: seconds for which the oldest item has been due, 0.0 for
    none. `rate`: items out and dropped per second since the previous status; None without one.
    """

    station: str
    paused: bool
    depth: Sizes
    came: int
    out: int
    dropped: int
    retried: int
    dead: int
    oldest: float
    rate: float | None = None
    jobs: Sizes = EMPTY

    @property
    def items_per_job(self) -> float | None:
        """The live items that a job carries on average; None without any."""
        return per_job(self.depth, self.jobs)

    @property
    def ended(self) -> int:
        """The items that have left the station: out, dropped or dead."""
        return self.out + self.dropped + self.dead

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "depth": self.depth._asdict(), "jobs": self.jobs._asdict()}


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """All stations, in the order of their declaration. `at`: the time of the status, by the store's clock."""

    pipeline: str
    at: int
    stations: tuple[StationStatus, ...]
    dead_letters: int
    """Items in the dead-letter queue of the pipeline."""

    @property
    def empty(self) -> bool:
        """True if no station has items."""
        return not any(station.depth.total for station in self.stations)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "pipeline": self.pipeline,
            "dead_letters": self.dead_letters,
            "stations": [station.as_json() for station in self.stations],
        }


class StationProgress(NamedTuple):
    """How far a station is in a run: `done` of `total` items, which grows while items come in.

    `rate`: items per second; None at the start. `failed`: dead letters among those done; `retried`: failed attempts.
    """

    station: str
    done: int
    total: int
    rate: float | None
    failed: int
    retried: int

    @property
    def line(self) -> str:
        """The progress in a line, such as `clean 1,200,000 of 3,000,000 · 84,000/s · 31 failed`."""
        parts = [f"{self.station} {self.done:,} of {self.total:,}"]
        if self.rate is not None:
            parts.append(f"{self.rate:,.0f}/s" if self.rate >= 10 or not self.rate else f"{self.rate:.1f}/s")
        parts += [f"{count:,} {word}" for count, word in ((self.retried, "retried"), (self.failed, "failed")) if count]
        return " · ".join(parts)


def progress_since(start: PipelineStatus, now: PipelineStatus) -> list[StationProgress]:
    """Return how far the stations are in a run, from its first status to a later one."""
    before = {one.station: one for one in start.stations}
    return [_progress(before[one.station], one) for one in now.stations if one.station in before]


def _progress(before: StationStatus, now: StationStatus) -> StationProgress:
    done = max(0, now.ended - before.ended)
    failed, retried = max(0, now.dead - before.dead), max(0, now.retried - before.retried)
    return StationProgress(now.station, done, done + now.depth.total, now.rate, failed, retried)


def status_of(
    store: Store, pipeline: str, stations: Collection[Station], dead_letters: str, before: PipelineStatus | None
) -> PipelineStatus:
    """Read the status of a pipeline. `before`: an earlier status, for the rates since then."""
    now = store.now()
    queues = [station.queue for station in stations]
    paused = {settings.name for settings in store.queues(queues) if settings.paused}
    earlier = {one.station: one for one in before.stations} if before else {}
    seconds = (now - before.at) / SECOND if before else 0.0

    def rate(station: str, ended: int) -> float | None:
        one = earlier.get(station)
        return None if one is None or seconds <= 0 else max(0, ended - one.out - one.dropped) / seconds

    stats = store.stats([dead_letters, *queues], ["states", "items", "totals", "next_due"])

    def station_status(station: Station) -> StationStatus:
        found = stats[station.queue]
        items, due = passed(found.totals, found.items, ends=station.options.ends), found.next_due
        return StationStatus(
            station=station.station,
            paused=station.queue in paused,
            depth=found.items,
            **items._asdict(),
            oldest=0.0 if due is None else max(0.0, (now - due) / SECOND),
            rate=rate(station.station, items.out + items.dropped),
            jobs=found.states,
        )

    return PipelineStatus(pipeline, now, tuple(map(station_status, stations)), stats[dead_letters].items.total)
