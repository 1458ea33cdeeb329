"""Four processes that contend for limited jobs, on PostgreSQL and MariaDB: rates beside plain jobs, and deadlocks.

``python -m benchmarks.limits_contention [--servers postgresql,mariadb] [--seconds 4] [--rounds 3]``
"""

from __future__ import annotations

import argparse
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median

import psycopg
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer
from tests.sql.contending import KINDS, Kind, contend, declare

from stanchion.stores.registry import open_store

PROCESSES = 4
Count = Callable[[], int]


@contextmanager
def postgresql() -> Iterator[tuple[Callable[[str], str], Count]]:
    """Start a server; give what makes a database, and what counts the server's deadlocks."""
    with PostgresServer() as server:
        yield server.create_database, lambda: postgresql_deadlocks(server.url())


def postgresql_deadlocks(url: str) -> int:
    """Return how many deadlocks the server has met, in all of its databases."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def mariadb() -> Iterator[tuple[Callable[[str], str], Count]]:
    """Start a server; give what makes a database, and what counts the server's deadlocks."""
    with MariaDBServer() as server:
        yield server.create_database, lambda: mariadb_deadlocks(server)


def mariadb_deadlocks(server: MariaDBServer) -> int:
    """Return how many deadlocks the server has met."""
    with server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
        row = cursor.fetchone()
    return int(row[1]) if row else 0


SERVERS = {"postgresql": postgresql, "mariadb": mariadb}


def measure(name: str, seconds: float, rounds: int) -> None:
    """Print the rates of each kind of load on one server, and its deadlocks."""
    rates: defaultdict[Kind, list[float]] = defaultdict(list)
    deadlocks: defaultdict[Kind, int] = defaultdict(int)
    refused: defaultdict[Kind, int] = defaultdict(int)
    with SERVERS[name]() as (create, count):
        for _ in range(rounds):
            for kind in KINDS:
                url = create(f"contention_{uuid.uuid4().hex}")
                with closing(open_store(url)) as store:
                    store.setup()
                    declare(store)
                before = count()
                results = contend(url, kind, PROCESSES, "--seconds", str(seconds))
                rates[kind].append(sum(one.settled / one.seconds for one in results))
                deadlocks[kind] += count() - before
                refused[kind] += sum(one.unavailable for one in results)
    print(f"{name}: {PROCESSES} processes, {rounds} rounds of {seconds:g} s")
    for kind, found in rates.items():
        ratio = median(rate / plain for rate, plain in zip(found, rates["plain"], strict=True))
        print(
            f"  {kind:12} {median(found):8.0f} jobs/s  {ratio:5.2f} of plain  "
            f"{deadlocks[kind]} deadlocks  {refused[kind]} StoreUnavailable"
        )


def main() -> None:
    """Measure on the chosen servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for name in given.servers.split(","):
        measure(name, given.seconds, given.rounds)


if __name__ == "__main__":
    main()
