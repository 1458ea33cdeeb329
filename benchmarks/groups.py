"""The groups of measurements: which databases they need, and what one round of one contender is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import cast

from benchmarks import measure
from benchmarks.contenders import POSTGRESQL, SQLITE, ConcurrentContender, Contender, Place, load
from benchmarks.database import Cost, Databases
from benchmarks.readings import Reading

MEGABYTE = 1e6


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the jobs of a contender with a limit of its own are fewer."""

    rounds: int
    singles: int
    jobs: int
    samples: int
    committers: int
    commits: int
    backlog: int


class Bench:
    """What a group works with: a server, a directory, sizes."""

    def __init__(self, databases: Databases | None, directory: Path, sizes: Sizes) -> None:
        self._databases = databases
        self._directory = directory
        self.sizes = sizes

    @property
    def databases(self) -> Databases:
        """The PostgreSQL server; only groups that need one ask."""
        assert self._databases is not None
        return self._databases

    @contextmanager
    def postgres(self, name: str) -> Iterator[Place]:
        """Give a fresh database."""
        with self.databases.fresh(name) as url:
            yield Place(url)

    @contextmanager
    def sqlite(self, name: str, *, durable: bool = True) -> Iterator[Place]:
        """Give the path of a database file yet to be made."""
        with self.scratch(f"sqlite-{name}") as directory:
            yield Place(str(directory / "jobs.db"), durable)

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Give an empty directory."""
        directory = self._directory / name
        directory.mkdir()
        try:
            yield directory
        finally:
            rmtree(directory)


Round = Callable[[Bench, str, int], Iterator[Reading]]


@dataclass(frozen=True)
class Group:
    """Measurements that are taken together: of each contender in turn, or of each kind of backlog."""

    name: str
    parts: tuple[str, ...]
    round: Round
    needs_server: bool = False
    once: bool = False
    """Its one round interleaves what it compares."""


def _postgres_enqueue(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    for table, size, bulk in (
        ("PostgreSQL, single enqueue", bench.sizes.singles, False),
        ("PostgreSQL, bulk enqueue", bench.sizes.jobs, True),
    ):
        with bench.postgres(name) as place:
            contender = _prepared(POSTGRESQL[name], place)
            jobs = min(size, contender.bulk_limit or size) if bulk else size
            before = bench.databases.counters(place.url)
            enqueue = contender.enqueue_bulk if bulk else contender.enqueue_one
            seconds = measure.enqueue_seconds(contender, enqueue, jobs)
            cost = bench.databases.counters(place.url).cost_since(before, jobs + measure.WARM_UP)
        yield Reading(table, name, number, jobs / seconds, {"jobs": jobs, **_columns(cost)})


def _postgres_drain(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    with bench.postgres(name) as place, bench.scratch("drain") as directory:
        contender = _prepared(POSTGRESQL[name], place)
        jobs = _fill(contender, bench.sizes.jobs)
        before = bench.databases.counters(place.url)
        seconds, memory = measure.drain(POSTGRESQL[name], place, contender, directory, jobs)
        cost = bench.databases.counters(place.url).cost_since(before, jobs)
    extra = {"jobs": jobs, "worker MB": memory / MEGABYTE, **_columns(cost)}
    yield Reading("PostgreSQL, drain", name, number, jobs / seconds, extra)


def _postgres_latency(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    with bench.postgres(name) as place:
        yield _latency(bench, POSTGRESQL[name], name, number, place, "PostgreSQL, pick-up")


def _postgres_committers(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    sizes = bench.sizes
    contender_class = cast(type[ConcurrentContender], load(POSTGRESQL[name]))
    for wakeup in contender_class.wakeups:
        with bench.postgres(name) as place:
            contender = contender_class(place)
            contender.prepare()
            seconds = measure.committers_seconds(contender, sizes.committers, sizes.commits, wakeup)
        label = f"{name}, wake-up {'on' if wakeup else 'off'}"
        rate = sizes.committers * sizes.commits / seconds
        yield Reading("PostgreSQL, concurrent committers", label, number, rate, {"threads": sizes.committers})


def _postgres_claim(bench: Bench, kind: str, number: int) -> Iterator[Reading]:
    with bench.postgres("small") as small, bench.postgres("large") as large:
        yield from _claim(bench, kind, "PostgreSQL", small, large, bench.databases.tidy)


def _sqlite_claim(bench: Bench, kind: str, number: int) -> Iterator[Reading]:
    with bench.sqlite("small") as small, bench.sqlite("large") as large:
        yield from _claim(bench, kind, "SQLite", small, large, lambda url: None)


def _sqlite_enqueue(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    for durable, mode in _MODES:
        for what, size, bulk in (
            ("single enqueue", bench.sizes.singles, False),
            ("bulk enqueue", bench.sizes.jobs, True),
        ):
            with bench.sqlite(name, durable=durable) as place:
                contender = _prepared(SQLITE[name], place)
                jobs = min(size, contender.bulk_limit or size) if bulk else size
                enqueue = contender.enqueue_bulk if bulk else contender.enqueue_one
                seconds = measure.enqueue_seconds(contender, enqueue, jobs)
            yield Reading(f"SQLite {mode}, {what}", name, number, jobs / seconds, {"jobs": jobs})


def _sqlite_drain(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    for durable, mode in _MODES:
        with bench.sqlite(name, durable=durable) as place, bench.scratch("drain") as directory:
            # The jobs to drain are enqueued without waiting for the disk, which is not timed.
            jobs = _fill(_prepared(SQLITE[name], replace(place, durable=False)), bench.sizes.jobs)
            contender = load(SQLITE[name])(place)
            seconds, memory = measure.drain(SQLITE[name], place, contender, directory, jobs)
        extra = {"jobs": jobs, "worker MB": memory / MEGABYTE}
        yield Reading(f"SQLite {mode}, drain", name, number, jobs / seconds, extra)


def _sqlite_latency(bench: Bench, name: str, number: int) -> Iterator[Reading]:
    with bench.sqlite(name) as place:
        yield _latency(bench, SQLITE[name], name, number, place, "SQLite durable, pick-up")


BACKLOGS = ("ready", "scheduled", "finished")
_MODES = ((True, "durable"), (False, "relaxed"))


def _prepared(reference: str, place: Place) -> Contender:
    """Return a contender with its schema made."""
    contender = load(reference)(place)
    contender.prepare()
    return contender


def _fill(contender: Contender, wanted: int) -> int:
    """Enqueue the jobs of a drain, numbered from 0; return how many."""
    jobs = min(wanted, contender.drain_limit or wanted)
    contender.open()
    contender.enqueue_bulk(0, jobs)
    contender.close()
    return jobs


def _latency(bench: Bench, reference: str, name: str, number: int, place: Place, table: str) -> Reading:
    samples = -(-bench.sizes.samples // bench.sizes.rounds)
    with bench.scratch("latency") as directory:
        contender = _prepared(reference, place)
        seconds = measure.latencies(reference, place, contender, directory, samples)
    milliseconds = [1000 * each for each in seconds]
    return Reading(table, name, number, median(milliseconds), samples=milliseconds)


def _claim(
    bench: Bench, kind: str, database: str, small: Place, large: Place, tidy: Callable[[str], None]
) -> Iterator[Reading]:
    from benchmarks import backlog  # the one group that can't be measured without Stanchion

    table = f"{database}, claim beside {kind} jobs"
    sides = {"small backlog": (small, backlog.SMALL), "large backlog": (large, bench.sizes.backlog)}
    stores = {name: backlog.filled(database, place, kind, size) for name, (place, size) in sides.items()}
    for place in (small, large):
        tidy(place.url)
    for number in range(-backlog.WARM_UP, backlog.ROUNDS):
        # Each side goes first in every other round.
        for name, store in sorted(stores.items(), reverse=bool(number % 2)):
            cost = store.claim_cost()
            if number >= 0:
                extra = {"claim + finish": cost.claim + cost.finish, "backlog": sides[name][1]}
                yield Reading(table, name, number, cost.claim, extra)
    for store in stores.values():
        store.close()


def _columns(cost: Cost) -> dict[str, float]:
    return {"commits/job": cost.commits, "WAL B/job": cost.wal_bytes}


GROUPS = {
    group.name: group
    for group in (
        Group("pg-enqueue", tuple(POSTGRESQL), _postgres_enqueue, needs_server=True),
        Group("pg-drain", tuple(POSTGRESQL), _postgres_drain, needs_server=True),
        Group("pg-latency", tuple(POSTGRESQL), _postgres_latency, needs_server=True),
        Group("pg-committers", tuple(POSTGRESQL), _postgres_committers, needs_server=True),
        Group("pg-claim", BACKLOGS, _postgres_claim, needs_server=True, once=True),
        Group("sqlite-enqueue", tuple(SQLITE), _sqlite_enqueue),
        Group("sqlite-drain", tuple(SQLITE), _sqlite_drain),
        Group("sqlite-latency", tuple(SQLITE), _sqlite_latency),
        Group("sqlite-claim", BACKLOGS, _sqlite_claim, once=True),
    )
}
