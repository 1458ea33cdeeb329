"""How many jobs per second a worker does through PgBouncer in transaction mode, beside one that is connected directly.

``python -m benchmarks.pooled [--jobs 6000] [--rounds 15] [--threads 8]``

Each round runs the same jobs in all ways, one after the other, and begins with another way each time. A ratio is that
of two runs in one round; printed are the median and the middle half of all rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from statistics import median, quantiles
from time import perf_counter

import psycopg
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion, Worker
from stanchion.stores.postgres.connections.sessions import PLANNER

DIRECT, POOLED, STORED = "directly", "through the pool", "through the pool, settings stored"
QUEUE = "pooled"


def rate(app: Stanchion, jobs: int, threads: int) -> float:
    """Store jobs that do nothing; return how many of them a worker does in a second."""
    nothing = app.using("nothing")
    for start in range(0, jobs, 1000):
        nothing.enqueue_many([()] * min(1000, jobs - start))
    began = perf_counter()
    Worker(app, [QUEUE], threads=threads, until_empty=True).run()
    return jobs / (perf_counter() - began)


def opened(url: str) -> Stanchion:
    """Open a store that is set up, with the task."""
    app = Stanchion(url)
    app.setup()
    app.task(name="nothing", queue=QUEUE)(lambda: None)
    return app


def summary(rates: Mapping[str, list[float]]) -> str:
    """Return a line for each way."""
    lines = []
    for way, found in rates.items():
        ratios = [one / direct for one, direct in zip(found, rates[DIRECT], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        lines.append(f"{way:34} {median(found):7,.0f} jobs/s, {median(ratios):.2f} ({low:.2f} to {high:.2f})")
    return "\n".join(lines)


def main() -> None:
    """Measure all ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    with PostgresServer() as server, PgBouncer(server) as pool:
        direct, *_ = map(server.create_database, ("direct", "pooled", "stored"))
        with psycopg.connect(direct, autocommit=True) as connection:
            for name, value in PLANNER.items():
                connection.execute(f"ALTER DATABASE stored SET {name} = {value}")
        urls = {DIRECT: direct, POOLED: pool.url("pooled"), STORED: pool.url("stored")}
        apps = {way: opened(url) for way, url in urls.items()}
        rates: dict[str, list[float]] = {way: [] for way in apps}
        for turn in range(given.rounds + 1):
            ways = list(apps)
            first = turn % len(ways)
            for way in ways[first:] + ways[:first]:
                found = rate(apps[way], given.jobs, given.threads)
                if turn:  # the first round warms caches
                    rates[way].append(found)
            print(f"round {turn} of {given.rounds}", flush=True)
        print(summary(rates))
        for app in apps.values():
            app.close()


if __name__ == "__main__":
    main()
