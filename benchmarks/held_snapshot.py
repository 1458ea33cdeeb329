"""What one idle transaction that stays open costs on PostgreSQL: jobs per second, tenth by tenth.

    python -m benchmarks.held_snapshot [--jobs 200000] [--batch 500] [--url postgresql://...] [--free] [--upkeep]

Nothing that was deleted since that transaction took its snapshot can be removed from tables or indexes, and whatever
reads an index from its beginning steps over all of it. So a queue that is pushed to and drained batch by batch shows in
the last tenth of the jobs what the dead entries of the others cost. `--free` runs without that transaction. `--upkeep`
adds what workers do beside: jobs of dead workers are looked for, and history is purged, once in each tenth. Where other
load is on the machine, look at the processor time of the server, which is known if it is started here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psycopg
from tests.servers.postgres import PostgresServer

from benchmarks.databases.postgres import SERVER_SETTINGS
from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store

QUEUE, WORKER = "held", "worker"
PAYLOAD = '{"to": "somebody@example.org", "number": 123456}'
PARTS = 10
HISTORY_TTL = 1.0
"""Seconds that finished jobs are kept with `--upkeep`, so that there is something to purge."""


class Took(NamedTuple):
    """Jobs of one tenth, and the seconds of its steps."""

    jobs: int
    push: float
    claim: float
    settle: float
    upkeep: float

    @property
    def rate(self) -> float:
        """Jobs per second through push, claim and settle."""
        return self.jobs / (self.push + self.claim + self.settle)


@contextmanager
def held_snapshot(url: str) -> Iterator[None]:
    """Keep a transaction open that has read once, as a forgotten session or a backup does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM stanchion_queues")
        yield
        connection.rollback()


def processor_seconds(postmaster: int) -> float:
    """Return the processor time of all processes of a server, also of those that have ended (Linux)."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = file.read_text().rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        state = fields.split()
        if int(name.split()[0]) == postmaster:
            ticks += sum(map(int, state[11:15]))
        elif int(state[1]) == postmaster:
            ticks += sum(map(int, state[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def through(store: Store, jobs: int, batch: int, upkeep: bool) -> Took:
    """Push and drain so many jobs, batch by batch."""
    push = claim = settle = 0.0
    for done in range(0, jobs, batch):
        new = [NewJob(one, QUEUE, PAYLOAD) for one in new_ids(min(batch, jobs - done))]
        at = perf_counter()
        store.push(new)
        push += perf_counter() - at
        left = len(new)
        while left:
            at = perf_counter()
            rows = store.claim(Claim(QUEUE, batch, new_id(), WORKER)).rows
            claimed = perf_counter()
            store.settle([Commit(row.lease) for row in rows])
            claim, settle = claim + claimed - at, settle + perf_counter() - claimed
            left -= len(rows)
    at = perf_counter()
    if upkeep:
        store.recover()
        store.maintain()
    return Took(jobs, push, claim, settle, perf_counter() - at)


def measure(url: str, jobs: int, batch: int, processor: Callable[[], float], *, free: bool, upkeep: bool) -> float:
    """Print the tenths; return the rate of the last one over that of the first."""
    with closing(open_store(url)) as store:
        store.setup()
        store.configure(QUEUE, {"history_ttl": HISTORY_TTL} if upkeep else {})
        through(store, 2 * batch, batch, upkeep)  # connections and prepared statements
        found: list[Took] = []
        print("tenth    jobs/s   us a job: push   claim  settle   upkeep ms   server's processor, us a job")
        with nullcontext() if free else held_snapshot(url):
            for number in range(1, PARTS + 1):
                busy = processor()
                took = through(store, jobs // PARTS, batch, upkeep)
                busy = processor() - busy
                found.append(took)
                each = [seconds / took.jobs * 1e6 for seconds in (took.push, took.claim, took.settle)]
                shown = " ".join(f"{one:7.0f}" for one in each)
                beside = f"{took.upkeep * 1e3:11.1f} {busy / took.jobs * 1e6:8.0f}"
                print(f"{number:5} {took.rate:9,.0f}         {shown} {beside}", flush=True)
    return found[-1].rate / found[0].rate


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty database; left out, a server of its own is started")
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--free", action="store_true", help="without the transaction that stays open")
    parser.add_argument("--upkeep", action="store_true", help="recover and maintain once in each tenth")
    given = parser.parse_args()
    with nullcontext() if given.url else PostgresServer(settings=SERVER_SETTINGS) as server:
        url, pid = given.url, 0
        if server is not None:
            url, pid = server.create_database("held_snapshot"), server.pid or 0
        ratio = measure(
            *(url, given.jobs, given.batch, lambda: processor_seconds(pid) if pid else 0.0),
            free=given.free,
            upkeep=given.upkeep,
        )
    print(f"last tenth / first tenth: {ratio:.2f}")


if __name__ == "__main__":
    main()
