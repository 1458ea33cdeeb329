"""What an idle fleet costs its database, beside idle queues of others, by the server's own counters.

    python -m benchmarks.idle [--stores postgres,mariadb,redis,sqlite,mongodb] [--workers 1,16] [--queues 10,1000]
                              [--seconds 60]

Counted are transactions (PostgreSQL), questions (MariaDB), commands, with those of scripts (Redis), statements (SQLite)
and commands of the driver (MongoDB). Each worker is a process. A line gives what the server counts in a second: in
all, for heartbeats (their number times the cost of one, measured before), and for the rest. The last line compares the
rest of the largest fleet with that of one worker, and that beside the most queues with that beside the fewest. Less
than a minute misses the work that is done once a minute.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from redis import Redis
from tests.servers.mariadb import MariaDBServer
from tests.servers.mongo import shared_mongo_server
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

from benchmarks.idle_worker import Count, commands, statements
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store

HEARTBEAT = 10.0
SETTLE = 45.0
"""Seconds from the start to the first count: the workers have proved to be alive for longer than they may be silent."""

START = 1.0
"""Seconds that the start of a worker may take, of those that start at once."""

BEATS = 20
"""Heartbeats by whose mean cost those of the workers are taken off."""


class Server(NamedTuple):
    """A server for one measurement: the URL of an empty store, and a function that returns what was sent to it so far.

    `by_drivers`: the server does not count, so the function counts for this process only, as each worker does.
    """

    url: str
    sent: Count
    by_drivers: bool = False


@contextmanager
def postgres() -> Iterator[Callable[[str], Server]]:
    """A PostgreSQL server that counts transactions."""
    import psycopg

    with PostgresServer(fsync=False) as server, psycopg.connect(server.url("postgres"), autocommit=True) as on:

        def new(name: str) -> Server:
            def count() -> float:
                time.sleep(1.5)  # sessions report about every second
                wanted = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
                found = on.execute(wanted, [name]).fetchone()
                assert found is not None
                return float(found[0])

            return Server(server.create_database(name), count)

        yield new


@contextmanager
def mariadb() -> Iterator[Callable[[str], Server]]:
    """A MariaDB server that counts questions."""
    with MariaDBServer(durable=False) as server, server.connect_as_root() as on:

        def count() -> float:
            with on.cursor() as cursor:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
                found = cursor.fetchone()
            assert found is not None
            return float(found[1])

        yield lambda name: Server(server.create_database(name), count)


@contextmanager
def redis() -> Iterator[Callable[[str], Server]]:
    """A Redis server that counts commands, also those of scripts."""
    with RedisServer(settings={"appendonly": "no"}) as server, Redis.from_url(server.url()) as on:
        numbers = itertools.count()

        def new(_name: str) -> Server:
            return Server(server.url(next(numbers)), lambda: float(on.info("stats")["total_commands_processed"]))

        yield new


@contextmanager
def sqlite() -> Iterator[Callable[[str], Server]]:
    """Files, whose statements are counted by each process."""
    count = statements()
    with tempfile.TemporaryDirectory() as folder:
        yield lambda name: Server(f"sqlite:///{folder}/{name}.db", count, by_drivers=True)


@contextmanager
def mongodb() -> Iterator[Callable[[str], Server]]:
    """A MongoDB server, whose commands are counted by the driver of each process."""
    count = commands()
    with shared_mongo_server() as server:
        yield lambda name: Server(server.url(name), count, by_drivers=True)


STORES = {"postgres": postgres, "mariadb": mariadb, "redis": redis, "sqlite": sqlite, "mongodb": mongodb}


class Idle(NamedTuple):
    """What a server counted in a second, and how often workers called a verb in a second."""

    total: float
    heartbeats: float
    calls: dict[str, float]

    @property
    def rest(self) -> float:
        """All but the heartbeats."""
        return self.total - self.heartbeats


def beat_cost(store: Store, count: Count, workers: int) -> float:
    """Return what one heartbeat costs."""
    rows = [WorkerRow(f"test {n}", "host", 1, ("mail",), 4, HEARTBEAT, began=()) for n in range(workers)]
    for row in rows:
        store.beat([row])
    before = count()
    for _ in range(BEATS):
        store.beat(rows[:1])
    cost = (count() - before) / BEATS
    for row in rows:
        store.leave(row.id)
    return cost


def idle(server: Server, workers: int, queues: int, seconds: float) -> Idle:
    """Return what idle workers of one queue cost beside idle queues of others."""
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(server.url)))
        store.setup()
        for number in range(queues):
            store.configure(f"of others {number}", {"lease": 31.0})
        cost = beat_cost(store, server.sent, workers)
        first = time.time() + SETTLE + workers * START
        command = [sys.executable, "-m", "benchmarks.idle_worker", server.url]
        command += [str(first), str(first + seconds), str(HEARTBEAT)]
        fleet = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(workers)
        ]
        time.sleep(first - time.time())
        before, began = server.sent(), time.monotonic()
        time.sleep(max(0.0, first + seconds - time.time()))
        after, elapsed = server.sent(), time.monotonic() - began
        told = [json.loads(one.stdout.readline()) for one in fleet if one.stdout]
        assert not any(late for _, _, late in told), "a worker has started too late"
    sent, made = sum(sent for sent, _, _ in told), sum((Counter(calls) for _, calls, _ in told), Counter[str]())
    rates = {name: number / seconds for name, number in made.most_common()}
    total = sent / seconds if server.by_drivers else (after - before) / elapsed
    return Idle(total, cost * rates.get("beat", 0.0), rates)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--workers", default="1,16")
    parser.add_argument("--queues", default="10,1000")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    sizes, others = (sorted(map(int, text.split(","))) for text in (given.workers, given.queues))
    for name in given.stores.split(","):
        with STORES[name]() as new:
            found: dict[tuple[int, int], Idle] = {}
            for number, (workers, queues) in enumerate(
                dict.fromkeys([*((one, others[0]) for one in sizes), *((sizes[0], one) for one in others)])
            ):
                found[workers, queues] = one = idle(new(f"idle{number}"), workers, queues, given.seconds)
                shown = ", ".join(f"{verb} {rate:.2f}" for verb, rate in one.calls.items() if rate >= 0.01)
                print(
                    f"{name:9} {workers:3} workers beside {queues:4} queues: {one.total:8.2f}/s,"
                    f" heartbeats {one.heartbeats:6.2f}/s, rest {one.rest:8.2f}/s   [{shown}]",
                    flush=True,
                )
            first = found[sizes[0], others[0]].rest
            print(f"{name:9} fleet {found[sizes[-1], others[0]].rest / first:.2f}", end=" ")
            print(f"queues {found[sizes[0], others[-1]].rest / first:.2f}", flush=True)


if __name__ == "__main__":
    main()
