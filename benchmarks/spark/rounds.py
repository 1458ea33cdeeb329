"""What one round of one contender is, for each kind of measurement with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.measure import MeasurementFailed
from benchmarks.readings import Reading
from benchmarks.rounds import Arena
from benchmarks.spark import CHUNKS, FLOOR, WRITE_FLOOR, load

WARM_UP = 2000
"""Rows that go the same way before those that count, on a database of their own."""

PER_BATCH = {"postgresql": 50_000}
PER_BATCH_ELSEWHERE = 10_000
TIMES_IN_CHUNKS = 10
"""So many times as many rows are streamed, and taken into a batch, if jobs carry many."""

PIPELINES = (1000, 10_000, 100_000)
"""Items of a pipeline."""

READS = ("six columns", "all columns")


def write(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """New rows as jobs."""
    from benchmarks.spark.engine import opened
    from benchmarks.spark.writing import QUEUE

    rows, seconds = bench.sizes.rows, 0.0
    for count in (min(WARM_UP, rows), rows):
        with bench.database(arena.database).fresh() as place:
            seconds = load(arena.contenders[name])(bench.spark(), place, count)
            if name != WRITE_FLOOR:
                with opened(place) as app:
                    _check(name, app.store.stats([QUEUE], ["items"])[QUEUE].items.total, count)
    yield Reading(f"{arena.title}, Spark write", name, number, rows / seconds, {"rows": rows})


def read(bench: Bench, arena: Arena, kind: str, number: int) -> Iterator[Reading]:
    """All jobs of a store. Its one round interleaves what it compares."""
    from benchmarks.spark.engine import fill, opened
    from benchmarks.spark.reading import SIX

    database, rows = bench.database(arena.database), bench.sizes.rows
    columns = SIX if kind == READS[0] else ()
    names = [name for name in arena.contenders if name in bench.names]
    with database.fresh() as place:
        with opened(place) as app:
            fill(app, "bench", rows)
        database.tidy(place)
        for turn in range(-1, bench.sizes.rounds):
            for name in names:
                seconds = load(arena.contenders[name])(bench.spark(), place, columns)
                if turn >= 0:
                    yield Reading(f"{arena.title}, Spark read of {kind}", name, turn, rows / seconds, {"rows": rows})


def stream(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """Jobs from queue to queue, acknowledged."""
    from benchmarks.spark.engine import fill, opened
    from benchmarks.spark.streaming import CLEAN, RAW
    from benchmarks.spark.writing import chunks

    database, times = bench.database(arena.database), TIMES_IN_CHUNKS if name == CHUNKS else 1
    rows, per_batch = bench.sizes.streamed * times, PER_BATCH.get(arena.database, PER_BATCH_ELSEWHERE) * times
    for count in (min(WARM_UP, rows), rows):
        with database.fresh() as place, bench.scratch("stream") as folder, opened(place) as app:
            if name == CHUNKS:
                chunks(bench.spark(), place, count, RAW)
            else:
                fill(app, RAW, count)
            database.tidy(place)
            seconds = load(arena.contenders[name])(bench.spark(), place, folder, per_batch)
            if name != FLOOR:
                items = app.store.stats([RAW, CLEAN], ["items"])
                _check(name, tuple(items[queue].items.total for queue in (RAW, CLEAN)), (0, count))
    extra = {"with start and end": rows / seconds.whole, "rows": rows, "per batch": per_batch}
    yield Reading(f"{arena.title}, Spark stream", name, number, rows / seconds.in_batches, extra)


def single(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """From the push of one job to its acknowledgement, by one that is idle."""
    samples = -(-bench.sizes.samples // bench.sizes.rounds)
    with bench.database(arena.database).fresh() as place, bench.scratch("single") as folder:
        seconds = load(arena.contenders[name])(bench.spark(), place, folder, samples)
    milliseconds = [1000 * each for each in seconds]
    title = f"{arena.title}, one job by a Spark stream"
    yield Reading(title, name, number, median(milliseconds), {"least": min(milliseconds)}, milliseconds)


def pipeline(bench: Bench, arena: Arena, name: str, number: int) -> Iterator[Reading]:
    """A pipeline of three stations until it is empty, with more and more items."""
    from benchmarks.spark.engine import opened, payloads
    from benchmarks.spark.stations import declared

    sizes = sorted({min(size, bench.sizes.streamed) for size in PIPELINES})
    for warming, size in ((True, sizes[0]), *((False, size) for size in sizes)):
        with bench.database(arena.database).fresh() as place, opened(place) as app:
            etl = declared(app)
            items = list(payloads(size))
            etl.push_many(items)
            spark = bench.spark()
            began = perf_counter()
            ended = load(arena.contenders[name])(spark, etl, items)
            seconds = perf_counter() - began
            _check(name, ended, size)
        if not warming:
            yield Reading(f"{arena.title}, pipeline, {size:,} items", name, number, size / seconds, {"items": size})


def _check(name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise MeasurementFailed(f"{name}: jobs that were found: {found}, not {wanted}")
