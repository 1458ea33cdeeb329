"""What one round of one contender is, for each kind of measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import cast

from benchmarks import measure
from benchmarks.bench import Bench
from benchmarks.contenders import ConcurrentContender, Contender, Place, load
from benchmarks.databases import per_job
from benchmarks.readings import Reading

MEGABYTE = 1e6
BACKLOGS = ("ready", "scheduled", "finished")
TENANTS = ("light tenants alone", "beside a heavy one")
SIZES_OF_CLAIMS = ("one by one", "in batches of 100")


@dataclass(frozen=True)
class Arena:
    """A database, as `Bench` knows it and as tables call it, and who competes there."""

    database: str
    title: str
    contenders: Mapping[str, str]


Round = Callable[[Bench, Arena, str, int], Iterator[Reading]]
"""Measures the contender, or the kind of backlog, of that name; the last argument is the number of the round."""


def enqueue(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """Job by job, and in bulk."""
    database = bench.database(arena.database)
    for what, size, bulk in (("single enqueue", bench.sizes.singles, False), ("bulk enqueue", bench.sizes.jobs, True)):
        with database.fresh() as place:
            contender = _prepared(arena.contenders[name], place)
            jobs = min(size, contender.bulk_limit or size) if bulk else size
            before = database.counters(place)
            call = contender.enqueue_bulk if bulk else contender.enqueue_one
            seconds = measure.enqueue_seconds(contender, call, jobs)
            cost = per_job(before, database.counters(place), jobs + measure.WARM_UP)
        yield Reading(f"{arena.title}, {what}", name, number, jobs / seconds, {"jobs": jobs, **cost})


def drain(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """A worker process runs what waits."""
    database = bench.database(arena.database)
    reference = arena.contenders[name]
    with database.fresh() as place, bench.scratch("drain") as directory:
        # The jobs to drain are enqueued without waiting for the disk where that is a choice; it is not timed.
        jobs = _fill(_prepared(reference, replace(place, durable=False)), bench.sizes.jobs)
        before = database.counters(place)
        seconds, memory = measure.drain(reference, place, load(reference)(place), directory, jobs)
        cost = per_job(before, database.counters(place), jobs)
    extra = {"jobs": jobs, "worker MB": memory / MEGABYTE, **cost}
    yield Reading(f"{arena.title}, drain", name, number, jobs / seconds, extra)


def latency(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """From an enqueue to the start of the handler, for an idle worker."""
    reference = arena.contenders[name]
    samples = -(-bench.sizes.samples // bench.sizes.rounds)
    with bench.database(arena.database).fresh() as place, bench.scratch("latency") as directory:
        seconds = measure.latencies(reference, place, _prepared(reference, place), directory, samples)
    milliseconds = [1000 * each for each in seconds]
    yield Reading(f"{arena.title}, pick-up", name, number, median(milliseconds), samples=milliseconds)


def committers(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """Many producers at once, with and without the wake-up of workers."""
    sizes = bench.sizes
    contender_class = cast(type[ConcurrentContender], load(arena.contenders[name]))
    for wakeup in contender_class.wakeups:
        with bench.database(arena.database).fresh() as place:
            contender = contender_class(place)
            contender.prepare()
            seconds = measure.committers_seconds(contender, sizes.committers, sizes.commits, wakeup)
        label = f"{name}, wake-up {'on' if wakeup else 'off'}"
        rate = sizes.committers * sizes.commits / seconds
        yield Reading(f"{arena.title}, concurrent committers", label, number, rate, {"threads": sizes.committers})


def claim(bench: Bench, arena: Arena, kind: str, number: int) -> Iterator[Reading]:
    """One claim beside a small and a large backlog. Its one round interleaves what it compares."""
    from benchmarks import backlog  # the one measurement that can't be taken without Stanchion

    database = bench.database(arena.database)
    sizes = {"small backlog": backlog.SMALL, "large backlog": bench.sizes.backlog}
    with ExitStack() as stack:
        places = {name: stack.enter_context(database.fresh()) for name in sizes}
        stores = {}
        for name, size in sizes.items():
            stores[name] = backlog.filled(arena.contenders["stanchion"], places[name], kind, size)
            stack.callback(stores[name].close)
        for place in places.values():
            database.tidy(place)
        for number in range(-backlog.WARM_UP, backlog.ROUNDS):
            # Each side goes first in every other round.
            for name, store in sorted(stores.items(), reverse=bool(number % 2)):
                cost = store.claim_cost()
                if number >= 0:
                    extra = {"claim + finish": cost.claim + cost.finish, "backlog": sizes[name]}
                    yield Reading(f"{arena.title}, claim beside {kind} jobs", name, number, cost.claim, extra)


def tenants(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """From the push to the start of the jobs of light tenants, with a heavy one in the same queue or without."""
    from benchmarks import fairness

    heavy = fairness.HEAVY if name == TENANTS[1] else 0
    samples = -(-bench.sizes.samples // bench.sizes.rounds)
    with bench.database(arena.database).fresh() as place:
        seconds = fairness.pick_ups(arena.contenders["stanchion"], place, heavy, samples)
    milliseconds = [1000 * each for each in seconds]
    yield Reading(f"{arena.title}, pick-up of light tenants", name, number, median(milliseconds), samples=milliseconds)


def lanes(bench: Bench, arena: Arena, size: str, number: int) -> Iterator[Reading]:
    """Claims of a queue with many lanes, and of one with a single one. Its one round interleaves what it compares."""
    from benchmarks import fairness

    database = bench.database(arena.database)
    limit = 1 if size == SIZES_OF_CLAIMS[0] else 100
    claims = fairness.CLAIMS if limit == 1 else fairness.CLAIMS // 5
    with ExitStack() as stack:
        stores = {}
        for count in (1, fairness.LANES):
            place = stack.enter_context(database.fresh())
            stores[count] = fairness.filled(arena.contenders["stanchion"], place, count, 2 * claims * limit + 10_000)
            stack.callback(stores[count].close)
            database.tidy(place)
        for number in range(-5, claims):
            for count, store in sorted(stores.items(), reverse=bool(number % 2)):
                seconds = fairness.claim_seconds(store, limit, number)
                if number >= 0:
                    label = "one lane" if count == 1 else f"{count} lanes"
                    yield Reading(f"{arena.title}, claim {size}", label, number, 1000 * seconds * 100 / limit)


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
