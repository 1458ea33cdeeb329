"""What an item costs in a pipeline, by the way it takes, on PostgreSQL with fsync.

    python -m benchmarks.pipelines [--items 2000000] [--singles 20000] [--spark-items 2000000] [--rounds 3] [WAY ...]

WAY: parts of the ways' names, by default all. A line gives the medians of: microseconds of processor time for each
item, of the client with all its processes and of the server; items a second, with the start of the process or of
Spark's tasks, and from the first claim to the last settlement; bytes on disk that the items add in the end. Pushing
the items is not counted, and `by hand` and `pandas` show what no queue costs.
Other work on the machine changes rates much more than processor time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]
import psycopg
from rich.console import Console
from rich.table import Table
from tests.servers.postgres import PostgresServer

from benchmarks.databases.postgres import SERVER_SETTINGS
from benchmarks.measure import MeasurementFailed
from benchmarks.pipelines.ways import WAYS, Taken, Way

_BETWEEN = "select min(started_at), max(finished_at) from stanchion_history"
_MICROSECONDS = 1e6


class Reading(NamedTuple):
    """One round of one way. Times: in microseconds for each item; rates: items a second."""

    client: float
    server: float
    rate: float
    rate_between: float
    disk: float


def main() -> None:
    """Measure the ways in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2_000_000, help="in chunks")
    parser.add_argument("--singles", type=int, default=20_000, help="single items")
    parser.add_argument("--spark-items", type=int, default=2_000_000, help="in chunks, on Spark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("ways", nargs="*")
    given = parser.parse_args()
    chosen = [name for name in WAYS if not given.ways or any(part in name for part in given.ways)]
    readings: dict[str, list[Reading]] = defaultdict(list)
    for number in range(given.rounds):
        for name in chosen if number % 2 == 0 else reversed(chosen):
            way = WAYS[name]
            count = given.singles if way.singles else given.spark_items if "Spark" in name else given.items
            readings[name].append(_measured(name, way, count))
            print(f"round {number + 1}: {name}: {_cells(readings[name][-1:])}", file=sys.stderr)
    _report(readings)


def _measured(name: str, way: Way, count: int) -> Reading:
    if not way.stored:
        (taken,) = _run(name, way, "", count)
        return Reading(_per_item(taken.cpu, count), 0.0, count / taken.seconds, count / taken.seconds, 0.0)
    with _server() as (url, server):
        empty = _size(url)
        way.push(url, count)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")
        before = _cpu(server)
        taken = _run(name, way, url, count)
        after = _cpu(server)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum full")
        seconds = max(one.seconds for one in taken)
        client = _per_item(sum(one.cpu for one in taken), count)
        between = count / _between(url) if "hand" not in name else count / seconds
        return Reading(client, _per_item(after - before, count), count / seconds, between, (_size(url) - empty) / count)


def _run(name: str, way: Way, url: str, count: int) -> list[Taken]:
    command = [sys.executable, "-m", "benchmarks.pipelines.ways", name, url, str(count)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(way.processes)]
    told = [process.communicate()[0] for process in running]
    taken = [Taken(*json.loads(text.splitlines()[-1])) for text in told]
    ended = max(one.items for one in taken) if "hand" not in name else sum(one.items for one in taken)
    if ended != count:
        raise MeasurementFailed(f"{name}: {ended} of {count} items came to the end")
    return taken


@contextmanager
def _server() -> Iterator[tuple[str, psutil.Process]]:
    with PostgresServer(settings=SERVER_SETTINGS) as server:
        url = server.url()
        with psycopg.connect(url) as connection:
            row: Any = connection.execute("select pg_read_file('postmaster.pid')").fetchone()
        yield url, psutil.Process(int(row[0].split()[0]))


def _cpu(server: psutil.Process) -> float:
    """Return the processor seconds of a server: of its living processes, and of those that have ended."""
    while True:
        living = [server, *server.children(recursive=True)]
        try:
            return sum(sum(process.cpu_times()[:2]) for process in living) + sum(server.cpu_times()[2:4])
        except psutil.NoSuchProcess:
            continue  # one has ended since it was listed


def _size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row: Any = connection.execute("select pg_database_size(current_database())").fetchone()
    return int(row[0])


def _between(url: str) -> float:
    with psycopg.connect(url) as connection:
        row: Any = connection.execute(_BETWEEN).fetchone()
    return float(row[1] - row[0]) / _MICROSECONDS


def _per_item(seconds: float, count: int) -> float:
    return seconds * _MICROSECONDS / count


def _cells(readings: list[Reading]) -> list[str]:
    middle = Reading(*(median(values) for values in zip(*readings, strict=True)))
    times = [f"{value:.2f}" for value in (middle.client, middle.server, middle.client + middle.server)]
    return [*times, f"{middle.rate:,.0f}", f"{middle.rate_between:,.0f}", f"{middle.disk:.0f}"]


def _report(readings: dict[str, list[Reading]]) -> None:
    table = Table("way", "client µs", "server µs", "both µs", "items/s", "first to last", "B on disk")
    for name, found in readings.items():
        table.add_row(name, *_cells(found))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
