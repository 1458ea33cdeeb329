"""How long each page of `stanchion web` takes over a large store.

    python -m benchmarks.page [sqlite|postgresql] [--live 1000000] [--finished 10000000] [--rounds 5]

Ten queues hold the live jobs, of which one in five is scheduled; of the finished jobs one in 200 is dead, by one of
twenty errors. Rows are copies of a job, made by SQL. A line gives the path, the status, and the median and the longest
time in ms; pages are asked for one after the other by a client in this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, text
from starlette.testclient import TestClient
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion
from stanchion.ops.web.access.callers import Tokens
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site

PATHS = (
    *("/", "/errors", "/queues", "/queues/q1", "/jobs", "/jobs?state=dead", "/jobs?state=done&queue=q1"),
    *("/jobs?state=ready&task=work", "/jobs?text=no+such+text", "/jobs?state=scheduled&tenant=nobody", "/workers"),
    *("/schedules", "/semaphores", "/flows", "/pipelines", "/streams", "/managers", "/report", "/audit", "/more"),
    *("/api/v1/queues", "/api/v1/jobs?state=dead", "/api/v1/errors", "/api/v1/alerts", "/api/v1/monitor"),
)

_NUMBERS = {
    "sqlite": "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) SELECT i FROM n) AS n",
    "postgresql": "generate_series(1, {n}) AS n (i)",
}
_ID = {
    "sqlite": "printf('0190{kind}000-0000-7000-8000-%012x', i)",
    "postgresql": "CAST('0190{kind}000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') AS uuid)",
}


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Yield the URL of an empty database."""
    if kind == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder, 'jobs.db')}"
    else:
        with PostgresServer() as server:
            yield server.create_database("page")


def fill(app: Stanchion, kind: str, live: int, finished: int) -> None:
    """Make the jobs, by copies of one that is ready, one that is done and one that is dead."""

    @app.task(name="work", queue="q0", max_attempts=1)
    def work(fails: bool) -> None:
        if fails:
            raise ValueError("no answer to 0")

    work.enqueue(False)
    work.enqueue(True)
    app.drain()
    work.enqueue(False)
    queue = "'q' || CAST(i % 10 AS TEXT)"
    for name in range(10):
        app.queue(f"q{name}").configure()
    hour = 3_600_000_000
    _copy(
        *(app, kind, "stanchion_jobs", "queued", 1, live),
        {"queue": queue, "run_at": f"run_at + CASE WHEN i % 5 = 0 THEN {hour} ELSE i END"},
    )
    done = {"queue": queue, "finished_at": f"finished_at - CAST({hour} / {finished} AS BIGINT) * i"}
    _copy(app, kind, "stanchion_history", "done", 2, finished * 199 // 200, done)
    error = (
        "replace(errors, 'answer to 0', 'answer to host' || substr('abcdefghijklmnopqrst', CAST(i % 20 AS INT) + 1, 1))"
    )
    _copy(app, kind, "stanchion_history", "dead", 3, finished // 200, {**done, "errors": error})
    engine = create_engine(app.url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("ANALYZE" if kind == "sqlite" else "VACUUM ANALYZE"))
    engine.dispose()


def _copy(app: Stanchion, kind: str, table: str, state: str, number: int, count: int, new: dict[str, str]) -> None:
    engine = create_engine(app.url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        one = connection.execute(text(f"SELECT * FROM {table} WHERE state = '{state}' LIMIT 1"))
        names = [f'"{name}"' for name in one.keys()]  # noqa: SIM118 - a result, which has no names of its own
        new = {'"id"': _ID[kind].format(kind=number), **{f'"{name}"': value for name, value in new.items()}}
        values = ", ".join(new.get(name, name) for name in names)
        source = f"(SELECT * FROM {table} WHERE state = '{state}' LIMIT 1) AS one, {_NUMBERS[kind].format(n=count)}"
        connection.execute(text(f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {source}"))
    engine.dispose()


def main() -> None:
    """Fill a store and ask for each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", default="sqlite", choices=list(_NUMBERS))
    parser.add_argument("--live", type=int, default=1_000_000)
    parser.add_argument("--finished", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given: Any = parser.parse_args()
    with database(given.kind) as url, closing(Stanchion(url)) as app:
        app.setup()
        began = time.perf_counter()
        fill(app, given.kind, given.live, given.finished)
        print(f"{given.kind}: {given.live:,} live, {given.finished:,} finished, {time.perf_counter() - began:.0f} s")
        site = Site(app, Tokens([]))
        client = TestClient(site_app(site), "http://127.0.0.1:7118", client=("127.0.0.1", 50_000))
        with client:
            job = client.get("/api/v1/jobs?state=dead").json()["items"][0]["id"]
            for path in (*PATHS, f"/jobs/{job}"):
                taken = []
                for _ in range(given.rounds):
                    asked = time.perf_counter()
                    answer = client.get(path)
                    taken.append(1000 * (time.perf_counter() - asked))
                print(f"  {path:40} {answer.status_code}  {median(taken):8.1f}  {max(taken):8.1f}", flush=True)


if __name__ == "__main__":
    main()
