"""What an idle fleet costs its database, beside idle queues of others, by the server's own counters.

    python -m benchmarks.idle [--stores postgres,mariadb,redis,sqlite,mongodb] [--workers 1,16] [--queues 10,1000]
                              [--seconds 60]

Counted are transactions (PostgreSQL), questions (MariaDB), commands, with those of scripts (Redis), statements (SQLite)
and commands of the driver (MongoDB). Each worker is an app of its own, with its own connections, in this process. A
line gives what the server counts in a second: in all, for heartbeats (their number times the cost of one, measured
before), and for the rest. The last line compares the rest of the largest fleet with that of one worker, and that
beside the most queues with that beside the fewest. Less than a minute misses the work that is done once a minute.
"""

from __future__ import annotations

import argparse
import itertools
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

from redis import Redis
from tests.servers.mariadb import MariaDBServer
from tests.servers.mongo import shared_mongo_server
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

from stanchion import Stanchion, Worker
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.registry import open_store

HEARTBEAT = 10.0
SETTLE = 45.0
"""Seconds from the start to the first count: the workers have proved to be alive for longer than they may be silent."""

BEATS = 20
"""Heartbeats by whose mean cost those of the workers are taken off."""

Count = Callable[[], float]


class Server(NamedTuple):
    """A server for one measurement: the URL of an empty store, and what the server has counted so far."""

    url: str
    count: Count


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
    """Files, whose statements are counted in this process.

    Left out: `PRAGMA data_version`, by which each process sees changes of others, in memory that it shares with them.
    """
    counted = Counter[str]()

    def count(statement: str) -> None:
        counted["looks" if statement == "PRAGMA data_version" else "statements"] += 1

    class Traced(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_trace_callback(count)

    connect = sqlite3.connect
    sqlite3.connect = sqlite3.dbapi2.connect = lambda *args, **options: connect(*args, **{"factory": Traced, **options})  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield lambda name: Server(f"sqlite:///{folder}/{name}.db", lambda: float(counted["statements"]))
    finally:
        sqlite3.connect = sqlite3.dbapi2.connect = connect


@contextmanager
def mongodb() -> Iterator[Callable[[str], Server]]:
    """A MongoDB server, whose commands are counted by the driver."""
    from pymongo import monitoring

    counted = Counter[str]()

    class Commands(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            counted["commands"] += 1

        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

        def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    monitoring.register(Commands())
    with shared_mongo_server() as server:
        yield lambda name: Server(server.url(name), lambda: float(counted["commands"]))


STORES = {"postgres": postgres, "mariadb": mariadb, "redis": redis, "sqlite": sqlite, "mongodb": mongodb}


class Observed:
    """A store that counts the calls of its verbs."""

    def __init__(self, store: Any, calls: Counter[str]) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if callable(found):
            self._calls[name] += 1
        return found

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Count this one, too: it is no attribute that is looked up."""
        self._calls["beat"] += 1
        return self._store.beat(workers)  # type: ignore[no-any-return]


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
    calls = Counter[str]()
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(server.url)))
        store.setup()
        for number in range(queues):
            store.configure(f"of others {number}", {"lease": 31.0})
        cost = beat_cost(store, server.count, workers)
        for _ in range(workers):
            own = stack.enter_context(closing(open_store(server.url)))
            app = Stanchion(store=Observed(own, calls))  # type: ignore[arg-type]
            app.task(name="nothing", queue="mail")(print)
            worker = Worker(app, threads=2, heartbeat=HEARTBEAT)
            worker.start()
            stack.callback(worker.stop, 0)
        time.sleep(SETTLE)
        before, began = server.count(), time.monotonic()
        calls.clear()
        time.sleep(seconds)
        after, elapsed = server.count(), time.monotonic() - began
        made = calls.copy()
    rates = {name: number / elapsed for name, number in made.most_common()}
    return Idle((after - before) / elapsed, cost * rates.get("beat", 0.0), rates)


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
