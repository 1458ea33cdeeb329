"""What waiting costs: transactions per second of idle waiters, by the server's own counter, and enqueues beside waits.

    python -m benchmarks.waits [--stores postgres,mariadb,sqlite] [--seconds 6] [--pending 10000]

The figures are ratios within one run: the same number of waiters on the release before gives the other side.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion, Worker
from stanchion.app import on_store
from stanchion.errors import JobCancelled
from stanchion.jobs.handle import JobHandle

WAITERS = 20
SETTLE = 1.5
"""Seconds until all waiters wait, and the server has counted what came before."""

Counter = Callable[[], int]


@contextmanager
def postgres() -> Iterator[tuple[str, Counter]]:
    """A server of its own, and its count of transactions."""
    import psycopg

    with PostgresServer(fsync=False) as server:
        url = server.create_database("waits")

        def count() -> int:
            with psycopg.connect(server.url("postgres"), autocommit=True) as on:
                wanted = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'waits'"
                return int(on.execute(wanted).fetchone()[0])  # type: ignore[index]

        yield url, count


@contextmanager
def mariadb() -> Iterator[tuple[str, Counter]]:
    """A server of its own, and its count of statements."""
    import pymysql

    with MariaDBServer(durable=False) as server:
        url = server.create_database("waits")

        def count() -> int:
            given: dict[str, Any] = {"port": server.port, "user": server.user, "password": server.password}
            with pymysql.connect(host="127.0.0.1", **given) as on, on.cursor() as cursor:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
                return int(cursor.fetchone()[1])  # type: ignore[index]

        yield url, count


@contextmanager
def sqlite() -> Iterator[tuple[str, Counter]]:
    """A file, which counts no queries."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/waits.db", lambda: 0


STORES = {"postgres": postgres, "mariadb": mariadb, "sqlite": sqlite}


class Counted:
    """A store that counts its claims."""

    def __init__(self, store: Any) -> None:
        self._store, self.claims = store, 0

    def __getattr__(self, name: str) -> Any:
        if name == "claim":
            self.claims += 1
        return getattr(self._store, name)


def per_second(count: Counter, seconds: float) -> float:
    """Return how much the counter grows in a second."""
    time.sleep(SETTLE)
    before, began = count(), time.monotonic()
    time.sleep(seconds)
    return (count() - before) / (time.monotonic() - began)


def idle_reserves(app: Stanchion, count: Counter, seconds: float) -> float:
    """Return the transactions per second of waiters at an empty queue."""
    wait = seconds + 2 * SETTLE + 2
    threads = [threading.Thread(target=app.queue("idle").reserve, kwargs={"wait": wait}) for _ in range(WAITERS)]
    for thread in threads:
        thread.start()
    rate = per_second(count, seconds)
    for thread in threads:
        thread.join()
    return rate


def idle_results(app: Stanchion, count: Counter, seconds: float) -> float:
    """Return the transactions per second of those who wait for results."""
    handles = [app.enqueue("unknown", queue="results") for _ in range(WAITERS)]

    def wait(handle: JobHandle) -> None:
        with suppress(JobCancelled):
            handle.result()

    threads = [threading.Thread(target=wait, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    rate = per_second(count, seconds)
    for handle in handles:
        handle.cancel()
    for thread in threads:
        thread.join()
    return rate


def idle_workers(app: Stanchion, elsewhere: Stanchion, count: Counter, seconds: float) -> tuple[float, float, float]:
    """Return claims and transactions per second of ten workers of this process, for ten jobs per second."""

    @app.task(queue="work", name="work")
    def work() -> None: ...

    counted: Any = Counted(app.store)
    with on_store(app, counted), ExitStack() as stack:
        for _ in range(10):
            worker = Worker(app, ["work"], threads=4)
            worker.start()
            stack.callback(worker.stop, 0)
        time.sleep(SETTLE)
        transactions, claims, began = count(), counted.claims, time.monotonic()
        jobs = 0
        while time.monotonic() - began < seconds:
            elsewhere.enqueue("work", queue="work")
            jobs += 1
            time.sleep(max(0.0, began + jobs / 10 - time.monotonic()))
        took = time.monotonic() - began
        time.sleep(1.1)  # the counter of the server lags behind
        return (counted.claims - claims) / took, (count() - transactions) / took, jobs / took


def enqueues_beside(app: Stanchion, pending: int) -> tuple[float, float]:
    """Return the median and the longest time of 20 enqueues beside so many pending waits, in milliseconds."""

    async def measure() -> tuple[float, float]:
        handles = await app.using("unknown", queue="beside").aenqueue_many([()] * pending) if pending else []
        waits = [asyncio.create_task(handle.aresult()) for handle in handles]
        await asyncio.sleep(SETTLE if pending <= 100 else 4 * SETTLE)
        took = []
        for _ in range(20):
            began = time.perf_counter()
            try:
                async with asyncio.timeout(60):
                    await app.using("unknown", queue="other").aenqueue()
            except TimeoutError:
                pass
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return statistics.median(took), max(took)

    return asyncio.run(measure())


def main() -> None:
    """Measure on each store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stores", default="postgres,mariadb,sqlite")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--pending", default="0,8,10000,0,10000")
    given = parser.parse_args()
    for name in given.stores.split(","):
        with STORES[name]() as (url, count):
            app, elsewhere = Stanchion(url), Stanchion(url)
            app.setup()
            if name != "sqlite":
                print(f"{name}: {WAITERS} idle reserve: {idle_reserves(app, count, given.seconds):.1f}/s", flush=True)
                print(f"{name}: {WAITERS} x result(): {idle_results(app, count, given.seconds):.1f}/s", flush=True)
            claims, transactions, jobs = idle_workers(app, elsewhere, count, given.seconds)
            print(
                f"{name}: ten workers, {jobs:.1f} jobs/s: {claims:.1f} claims/s, {transactions:.1f} transactions/s",
                flush=True,
            )
            for pending in map(int, given.pending.split(",")) if given.pending else ():
                median, longest = enqueues_beside(app, pending)
                shown = f"median {median:.1f} ms, longest {longest:.1f} ms"
                print(f"{name}: 20 enqueues beside {pending} waits: {shown}", flush=True)
            app.close()
            elsewhere.close()


if __name__ == "__main__":
    main()
