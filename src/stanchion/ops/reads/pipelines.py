"""Pipelines: their stations, with or without the code, and the current figures of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from stanchion.alerts.reading.errors import read_tallies
from stanchion.alerts.reading.parts import read_streams, stations_of
from stanchion.alerts.reading.windows import known_windows, limits_in, read_values
from stanchion.alerts.records import Alert
from stanchion.alerts.snapshot import LiveJob, QueueSample, Snapshot, StreamSample
from stanchion.alerts.verdict import by_queue
from stanchion.app import Stanchion
from stanchion.context import context_of
from stanchion.jobs.job import Job, JobState
from stanchion.ops.reads.lists import page_of
from stanchion.ops.reads.track import Track
from stanchion.ops.reads.workers import live_workers
from stanchion.pipelines.pipeline import plan_of
from stanchion.pipelines.record import PipelineRecord, StationRecord, recorded
from stanchion.pipelines.status import Passed, passed
from stanchion.pipelines.topology import DEAD
from stanchion.stores.letters import read_letters
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import EMPTY, QueueSettings, QueueStats, Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.serving import by_served_queue
from stanchion.stores.rules.lifecycle.dead_letters import letter_queues
from stanchion.telemetry.failures import Failures
from stanchion.telemetry.times import Times
from stanchion.telemetry.times import by_queue as times_by_queue

DEAD_READ: Final = 200
"""Dead items of a pipeline that are read, the newest."""

LIVE_READ: Final = 2000
"""Items of a pipeline that back off, which are read to count them."""

RATED: Final = 65 * SECOND
"""Microseconds over which rates are measured."""

Source = Literal["code", "store", "names"]
"""How a pipeline is known: by code of this process, by what another one has stored, or by the names of its queues."""

Trouble = Literal["paused", "no worker", "no driver", "fails", "attempts fail", "late", "slow", ""]
"""A station's trouble, by the alerts about its queue; `fails`: the query of its stream fails."""

_BY_RULE: Final[Sequence[tuple[str, Trouble]]] = (
    *(("no-worker", "no worker"), ("failed-attempts", "attempts fail"), ("dead-letters", "attempts fail")),
    *(("attempts", "attempts fail"), ("age", "late"), ("run-time", "slow")),
)
"""Words for a station's state by alert rule, most severe first."""


class Known(NamedTuple):
    """A pipeline, and how it is known. Without links its stations are in the order of their names."""

    record: PipelineRecord
    source: Source

    def queue(self, station: str) -> str:
        """Return the queue of a station."""
        return self.record.queue(station)

    def behind(self, station: str) -> set[str]:
        """Return the stations that items reach after one."""
        links = {one.name: one.to for one in self.record.stations}
        found: set[str] = set()
        ahead = list(links.get(station, ()))
        while ahead:
            name = ahead.pop()
            if name in links and name not in found:
                found.add(name)
                ahead += links[name]
        return found - {station}


class Dead(NamedTuple):
    """The newest dead items of a pipeline: how many of each station, and its last error; `whole`: these are all."""

    counts: Mapping[str, int] = {}
    errors: Mapping[str, str] = {}
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Station:
    """A station now.

    `lag`: seconds since its oldest due item became due. `came`, `out`: items per second in and done, over about a
    minute; None until known. `sizes`: its live items; `jobs`: the jobs that carry them.
    `idle`: seconds without an item done, as far as observed; None while items are done.
    `silent`: seconds since its driver's last heartbeat, None if unknown.
    `starved`: it has no items because a station before it has stopped. `passed`: items since its creation.
    `times`: waiting and run times of the last five minutes; None if no worker reports them.
    `alert`: the alert about its queue. `retrying`: items that wait after a failed attempt.
    `failed`: share of the last five minutes' attempts that failed; None if no attempt is known to have ended.
    `error`: the latest error of a dead item, else of a failed attempt that workers have tallied.
    """

    record: StationRecord
    queue: str
    engine: str
    sizes: Sizes
    lag: float
    came: float | None
    out: float | None
    idle: float | None
    trouble: Trouble
    silent: float | None
    starved: bool
    dead: int
    error: str
    ready: Sequence[tuple[int, float]]
    paused: bool
    passed: Passed
    times: Times | None
    alert: Alert | None = None
    retrying: int = 0
    failed: float | None = None
    jobs: Sizes = EMPTY

    @property
    def name(self) -> str:
        """The name of the station."""
        return self.record.name

    @property
    def stopped(self) -> bool:
        """Whether nothing comes out although items wait."""
        return self.trouble in ("paused", "no worker", "no driver", "fails")

    @property
    def retries(self) -> bool:
        """Whether items fail and are tried again, though too few for an alert."""
        return not self.trouble and (self.retrying > 0 or bool(self.failed))


def known_pipelines(app: Stanchion, store: Store, settings: Iterable[QueueSettings]) -> dict[str, Known]:
    """Return all pipelines by name: declared in code, stored by a process, or inferred from queue names."""
    queues = {one.name: one for one in settings}
    found = {one.name: Known(one, "store") for one in recorded(store) if _exists(one, queues)}
    found |= {name: Known(plan_of(one).record, "code") for name, one in app.pipelines.items() if plan_of(one).stations}
    guessed: dict[str, list[str]] = {}
    for one in queues.values():
        name, dot, station = one.name.rpartition(".")
        if dot and station != DEAD and one.dead_letter == f"{name}.{DEAD}" and name not in found:
            guessed.setdefault(name, []).append(station)
    for name, stations in guessed.items():
        found[name] = Known(PipelineRecord(name, tuple(map(StationRecord, sorted(stations)))), "names")
    return dict(sorted(found.items()))


def _exists(one: PipelineRecord, queues: Mapping[str, object]) -> bool:
    return any(f"{one.name}.{station.name}" in queues for station in one.stations)


def read_dead(app: Stanchion, store: Store, known: Known, seen: Snapshot, told: Callable[[Job], str]) -> Dead:
    """Read the newest dead items of a pipeline, if it has any. `told`: returns the text for an item's error."""
    queues = {
        known.queue(station.name): one for station in known.record.stations if (one := _sample(seen, known, station))
    }
    places = {one.settings.dead_letter for one in queues.values()} & seen.letters.lying.keys()
    kept = {name for name, one in queues.items() if one.settings.dead_letter is None and one.stats.totals.buried}
    names = sorted(filter(None, places | kept))
    if not names:
        return Dead()
    where = Condition("queue", "in", tuple(names)), Condition("state", "=", JobState.DEAD.value)
    found = page_of(context_of(app), store, Query("all" if kept else "live", where), seen.at, None, DEAD_READ)
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}
    for job in found.jobs:
        if (queue := job.died_in) in queues:
            counts[queue] = counts.get(queue, 0) + 1
            errors.setdefault(queue, told(job) if job.errors else "buried without an error")
    return Dead(counts, errors, found.next is None)


def _sample(seen: Snapshot, known: Known, station: StationRecord) -> QueueSample | None:
    return next((one for one in seen.queues if one.settings.name == known.queue(station.name)), None)


def stations(
    known: Known, seen: Snapshot, tracks: Mapping[str, Track], dead: Dead, alerts: Iterable[Alert]
) -> list[Station]:
    """Return the current state of a pipeline's stations, in its order. `alerts`: firing alerts, by urgency."""
    about = by_queue(alerts, seen)
    retrying = Counter(job.queue for job in seen.live if job.failures and job.state != JobState.RUNNING)
    samples = {one.settings.name: one for one in seen.queues}
    streams = {one.queue: one for one in seen.streams}
    serving = by_served_queue(one for one in live_workers(seen.workers, seen.at) if one.threads)
    times = times_by_queue(seen.workers, seen.at)
    found = []
    for record in ordered(known.record):
        queue = known.queue(record.name)
        sample = samples.get(queue)
        settings, stats = (QueueSettings(queue), QueueStats()) if sample is None else sample
        lag = 0.0 if sample is None else max((-head.due_in / SECOND for _, head in seen.due(sample)), default=0.0)
        stream = streams.get(queue)
        workers = serving.get(queue, [])
        track = tracks.get(queue)
        came, out = rates(track)
        trouble = _trouble(settings, stats.states, stream, about.get(queue))
        found.append(
            Station(
                record,
                queue,
                _engine(record, stream, workers),
                stats.items,
                lag,
                came,
                out,
                None if track is None or out else idle_for(track),
                trouble,
                None if stream is None or stream.last_beat is None else seen.ago(stream.last_beat),
                False,
                dead.counts.get(queue, 0),
                dead.errors.get(queue) or (stream and stream.error) or _last_error(seen.tallies.get(queue, {})),
                [] if track is None else [(one.at, float(one.ready)) for one in track.points],
                settings.paused,
                passed(stats.totals, stats.items, ends=record.ends),
                times.get(queue),
                about.get(queue),
                retrying[queue],
                None if track is None else track.failed,
                stats.states,
            )
        )
    return _with_starved(known, found)


def ordered(record: PipelineRecord) -> list[StationRecord]:
    """Sort the stations topologically, breaking each loop at its first station left."""
    by_name = {one.name: one for one in record.stations}
    left = {name: {one.name for one in record.stations if name in one.to and one.name != name} for name in by_name}
    found: list[StationRecord] = []
    while left:
        ready = [name for name, before in left.items() if not before & left.keys()] or list(left)[:1]
        found += [by_name[name] for name in ready]
        for name in ready:
            del left[name]
    return found


def read_pipeline(store: Store, known: Known) -> Snapshot:
    """Read what `stations` and `read_dead` need of one pipeline, however many queues the store has."""
    now, workers = store.now(), store.workers()
    names = [known.queue(one.name) for one in known.record.stations]
    settings = {one.name: one for one in store.queues(names)}
    stats = store.stats([*{*names, *letter_queues(settings.values())}], ["states", "items", "totals", "heads"])
    queues = tuple(QueueSample(settings.get(name, QueueSettings(name)), stats[name]) for name in names)
    values = read_values(store)
    recent, hour = known_windows(values, now)
    return Snapshot(
        now,
        queues=queues,
        workers=tuple(workers),
        streams=read_streams(store, workers, now),
        letters=read_letters(store, [*settings.values()], stats),
        live=_backing_off(store, names),
        tallies=read_tallies(store, names),
        stations=stations_of(known.record),
        recent=recent,
        hour=hour,
        limits=limits_in(values),
    )


def _backing_off(store: Store, queues: Sequence[str]) -> tuple[LiveJob, ...]:
    where = Condition("queue", "in", tuple(queues)), Condition("state", "=", JobState.SCHEDULED.value)
    query = Query("live", where, order="id", limit=LIVE_READ, columns=LiveJob._fields)
    return tuple(LiveJob(*row)._replace(state=JobState.SCHEDULED) for row in store.select(query).rows)


def _last_error(tallies: Mapping[str, Failures]) -> str:
    return max(tallies.values(), key=lambda one: one.last).error if tallies else ""


def _trouble(settings: QueueSettings, sizes: Sizes, stream: StreamSample | None, alert: Alert | None) -> Trouble:
    """Return what keeps the items of a station, by the alert about it; a pause does where items wait."""
    rules = set() if alert is None else {alert.rule, *alert.merged}
    if settings.paused and (sizes.ready or (stream is not None and stream.pending)):
        return "paused"
    if "stream" in rules:
        return "no driver" if stream is None or not (stream.live or stream.stopped) else "fails"
    return next((said for rule, said in _BY_RULE if rule in rules), "")


def _engine(record: StationRecord, stream: StreamSample | None, workers: Sequence[WorkerRow]) -> str:
    threads = sum(one.threads for one in workers)
    if stream is not None and not workers:
        return "Spark"
    if threads:
        return f"{threads:,} {'thread' if threads == 1 else 'threads'}"
    return "Spark" if record.engine == "spark" else "no worker"


def rates(track: Track | None) -> tuple[float | None, float | None]:
    """Return how many items a second came to a queue and were done there, over about a minute.

    Items sent by another station are not counted as pushes, so arrivals are the items done plus the queue's growth.
    """
    points = [] if track is None else track.points
    if len(points) < 2:
        return None, None
    last = points[-1]
    first = next((one for one in points if last.at - one.at <= RATED), points[-2])
    first = points[-2] if first is last else first
    seconds = max((last.at - first.at) / SECOND, 1e-6)
    done = max(0, last.done - first.done)
    return max(0, done + last.dead - first.dead + last.ready - first.ready) / seconds, done / seconds


def idle_for(track: Track) -> float | None:
    """Return the seconds since an item was last done, as far back as the track goes; None before its first point."""
    points = track.points
    if not points:
        return None
    since = points[-1].at
    for before, after in pairwise(reversed(points)):
        if after.done < before.done:
            break
        since = after.at
    return (points[-1].at - since) / SECOND


def _with_starved(known: Known, found: Sequence[Station]) -> list[Station]:
    """Mark the stations without items that get none as one before them has stopped."""
    behind = set().union(*(known.behind(one.name) for one in found if one.stopped))
    return [
        replace(one, starved=True) if one.name in behind and not one.sizes.total and not one.stopped else one
        for one in found
    ]
