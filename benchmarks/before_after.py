"""Two versions of Stanchion, measured in turns in one run: what a change costs, and what it gains.

    python -m benchmarks.before_after BEFORE [--after DIRECTORY] [--servers sqlite,postgresql,mariadb,redis]
                                      [--loads single,bulk,...] [--jobs 2000] [--rounds 7]

BEFORE is a checkout of the earlier version (`git worktree add`), `--after` the later one: this one, if left out. Each
round runs each load with both versions, on empty databases of one server, and begins with the other version than the
round before. A line gives the median rates, the median of the ratios (after / before; more is better) with the middle
half of these, and the median ratio of the processor time for each job, of the caller and of the server (less is
better); then what the server did for each job: statements on MariaDB, commands on Redis, transactions on PostgreSQL.
Other work on the machine changes rates much more than processor time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import psycopg
import redis
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

from benchmarks.load import LOADS, Figures

HERE = Path(__file__).parents[1]


class Place(NamedTuple):
    """A running server: what makes an empty database, what counts its work, and its process or 0."""

    empty: Callable[[], str]
    work: Callable[[], int]
    process: int


class Reading(NamedTuple):
    """What one load came to, and the server's work for each job."""

    figures: Figures
    work: float


@contextmanager
def sqlite() -> Iterator[Place]:
    """Files; nothing is counted."""
    with tempfile.TemporaryDirectory() as folder:
        yield Place(lambda: f"sqlite:///{folder}/{uuid.uuid4().hex}.db", lambda: 0, 0)


@contextmanager
def postgresql() -> Iterator[Place]:
    """A server, by its number of transactions."""

    def transactions() -> int:
        with psycopg.connect(server.url()) as connection:
            row = connection.execute("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database").fetchone()
        return int(row[0]) if row else 0

    with PostgresServer() as server:
        yield Place(lambda: server.create_database(f"d{uuid.uuid4().hex}"), transactions, server.pid or 0)


@contextmanager
def mariadb() -> Iterator[Place]:
    """A server, by its number of statements."""

    def questions() -> int:
        with server.connect_as_root() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
            row = cursor.fetchone()
        return int(row[1]) if row else 0

    with MariaDBServer() as server:
        yield Place(lambda: server.create_database(f"d{uuid.uuid4().hex}"), questions, server.pid or 0)


@contextmanager
def redis_server() -> Iterator[Place]:
    """A server, by its number of commands."""
    with RedisServer() as server, redis.Redis.from_url(server.url()) as client:

        def empty() -> str:
            client.flushall()
            return str(server.url())

        yield Place(empty, lambda: int(client.info("stats")["total_commands_processed"]), server.pid or 0)


SERVERS = {"sqlite": sqlite, "postgresql": postgresql, "mariadb": mariadb, "redis": redis_server}


def measured(source: Path, place: Place, load: str, jobs: int) -> Reading:
    """Run a load by a version, on an empty database."""
    url, before = place.empty(), place.work()
    given = [str(source / "src"), url, load, str(jobs), str(place.process)]
    command = [sys.executable, str(HERE / "benchmarks" / "load.py"), *given]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Reading(Figures(**json.loads(answer)), (place.work() - before) / jobs)


def jobs_of(load: str, jobs: int) -> int:
    """Return how many jobs a load takes."""
    if load == "bulk":
        return jobs * 10
    return jobs // 10 if load == "latency" else jobs


def compare(place: Place, load: str, sources: tuple[Path, Path], jobs: int, rounds: int) -> str:
    """Return the line of one load."""
    readings: tuple[list[Reading], list[Reading]] = [], []
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            readings[side].append(measured(sources[side], place, load, jobs))
    ratios = {
        name: [
            getattr(after.figures, name) / (getattr(before.figures, name) or nan)
            for before, after in zip(*readings, strict=True)
        ]
        for name in Figures._fields
    }
    low, _, high = quantiles(ratios["rate"], n=4) if rounds > 1 else ratios["rate"] * 3
    rates = [median(one.figures.rate for one in side) for side in readings]
    work = [median(one.work for one in side) for side in readings]
    return (
        f"  {load:8} {rates[0]:9.0f} → {rates[1]:9.0f} jobs/s   {median(ratios['rate']):5.2f} ({low:.2f} to {high:.2f})"
        f"   caller {median(ratios['client']):5.2f}, server {median(ratios['server']):5.2f}"
        f"   {work[0]:6.2f} → {work[1]:6.2f} for each job"
    )


def main() -> None:
    """Compare the versions that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("--after", type=Path, default=HERE)
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    given: Any = parser.parse_args()
    sources = given.before.resolve(), given.after.resolve()
    for server in given.servers.split(","):
        print(f"{server}: {given.rounds} rounds", flush=True)
        with SERVERS[server]() as place:
            for load in given.loads.split(","):
                print(compare(place, load, sources, jobs_of(load, given.jobs), given.rounds), flush=True)


if __name__ == "__main__":
    main()
