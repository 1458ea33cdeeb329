"""How soon a free job is handed out behind very many that have to wait for a full semaphore or an order key.

``python -m benchmarks.parked_line [--servers sqlite,postgresql,mariadb] [--jobs 100000] [--rounds 3]``
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_text

QUEUE = "line"
FREE = 100
BATCH = 1000
LIMIT = 10
KINDS: dict[str, dict[str, Any]] = {
    "semaphore": {"limits": limits_text(Limits(("slot",)))},
    "order key": {"order_key": "k"},
}


@contextmanager
def sqlite() -> Iterator[Callable[[str], str]]:
    """Give what names a new file."""
    with tempfile.TemporaryDirectory() as folder:
        yield lambda name: f"sqlite:///{Path(folder, name)}.db"


@contextmanager
def postgresql() -> Iterator[Callable[[str], str]]:
    """Start a server; give what makes a database."""
    with PostgresServer() as server:
        yield server.create_database


@contextmanager
def mariadb() -> Iterator[Callable[[str], str]]:
    """Start a server; give what makes a database."""
    with MariaDBServer() as server:
        yield server.create_database


SERVERS = {"sqlite": sqlite, "postgresql": postgresql, "mariadb": mariadb}


def push(store: Store, count: int, **given: Any) -> list[str]:
    """Store jobs; return their ids."""
    ids = new_ids(count)
    for start in range(0, count, BATCH):
        store.push([NewJob(one, QUEUE, "1", **given) for one in ids[start : start + BATCH]])
    return ids


def measure(store: Store, kind: str, jobs: int) -> str:
    """Return how long it took to the first free job, to all of them, and until all others were parked."""
    store.set_semaphore("slot", 1)
    push(store, 1, **KINDS[kind])
    assert len(store.claim(Claim(QUEUE, 1, new_id(), "holder")).rows) == 1
    push(store, jobs, **KINDS[kind])
    free = set(push(store, FREE))
    began = perf_counter()
    first, taken, slowest, calls = 0.0, 0, 0.0, 0
    while taken < FREE:
        before = perf_counter()
        rows = store.claim(Claim(QUEUE, LIMIT, new_id(), "worker")).rows
        slowest = max(slowest, perf_counter() - before)
        calls += 1
        assert {row.id for row in rows} <= free
        taken += len(rows)
        first = first or (perf_counter() - began if rows else 0.0)
    last = perf_counter() - began
    while store.claim(Claim(QUEUE, LIMIT, new_id(), "worker")).retry_in == 0:
        pass
    assert store.stats([QUEUE], ["states"])[QUEUE].states.waiting == jobs
    return (
        f"{kind:10} first free job after {first:.3f} s, all {FREE} after {last:.2f} s in {calls} claims "
        f"(slowest {slowest:.3f} s), all parked after {perf_counter() - began:.1f} s"
    )


def main() -> None:
    """Measure on the chosen servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default=",".join(SERVERS))
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for name in given.servers.split(","):
        with SERVERS[name]() as create:
            for _ in range(given.rounds):
                for kind in KINDS:
                    with closing(open_store(create(f"line_{uuid.uuid4().hex}"))) as store:
                        store.setup()
                        print(f"{name:10} {measure(store, kind, given.jobs)}", flush=True)


if __name__ == "__main__":
    main()
