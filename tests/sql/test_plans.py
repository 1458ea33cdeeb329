"""Every hot statement touches a bounded number of rows, whatever lies in the tables.

Many ready jobs, as many scheduled ones of a higher priority, as many finished ones; in another queue many ready jobs
in 64 lanes, behind scheduled ones of higher priorities.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from tests.conftest import NewDatabase
from tests.servers.mariadb import MariaDBServer

from stanchion import Stanchion
from stanchion.core.ids import new_ids
from stanchion.feed.event import KINDS
from stanchion.feed.sources import Period, Selection, pushes, starts_and_ends
from stanchion.queues.operating import purge
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRef, JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Extend, Move, Pass, Passage, Progress, Rollback
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.slots import semaphore_slot
from stanchion.stores.sql.engine.runner import CursorRunner
from stanchion.waits.pop import pop
from stanchion_conformance.harness import due_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


class Amounts(NamedTuple):
    """How many jobs there are of each kind."""

    each: int
    in_lanes: int


PLENTY = Amounts(400_000, 400_000)
"""For a bound on blocks: an index has a block for some 130 jobs."""

MANY = Amounts(100_000, 200_000)
"""For a bound on rows or steps: all jobs of a kind, or of one lane, are far above it."""

LANES = 64
BATCH = 100
FAR = "4102444800000000"  # the year 2100
WORKER = WorkerRow("w1", "host", 1, ("big",), 8, 10.0)

PASSED = (Passage("next", changed=True), Passage("last"))
OF_BIG = (Condition("queue", "=", "big"),)


def part_of(job: JobRow) -> NewJob:
    """Return a part of a job, for another queue."""
    return NewJob(new_ids(1)[0], "parts", job.payload, origin=job.id)


def pages_of(store: Store, query: Query) -> None:
    """Read the first two pages."""
    list(islice(pages(store, query), 2))


def of_one_rank(queue: str, lane: int) -> Query:
    """Return the query for the queued jobs of priority 0 in a lane, in the order of claims."""
    where = (Condition("queue", "=", queue), Condition("lane", "=", lane), Condition("rank", "=", 0))
    columns = ("id", "rank", "run_at", "lane")
    return Query("live", (*where, Condition("run_at", "<=", int(FAR))), order="due", limit=BATCH, columns=columns)


def ended(store: Store) -> list[JobRef]:
    """Return some finished jobs as they are."""
    return [row.ref for row in store.select(Query("history", OF_BIG, order="finished", limit=BATCH)).rows]


FED, FED_QUEUES = Selection(frozenset(KINDS)), ("big", "laned", "nowhere")
ENDS = Period(int(FAR) + 1000, int(FAR) + 1000 + BATCH, 0, 0)


def events_of(store: Store, period: Period) -> None:
    """Ask what a feed of several queues asks of a period."""
    queries = [pushes(FED, FED_QUEUES, period), *(query for _, query in starts_and_ends(FED, FED_QUEUES, period))]
    for query in queries:
        store.select(replace(query, horizon=True))


def events_of_now(store: Store, _held: list[JobRow]) -> None:
    """Ask what a feed asks of the last minute."""
    now = store.now()
    events_of(store, Period(now - 60 * SECOND, now, SECOND, now))


def claim_by_ids(store: Store, _held: list[JobRow]) -> None:
    """Claim jobs by their ids for three workers."""
    found = store.select(of_one_rank("big", UNLANED)).rows
    ids = tuple((job, f"w{number % 3}") for number, (job, *_) in enumerate(found))
    assert len(store.claim(Claim("big", BATCH, "other", ids=ids)).rows) == BATCH


def push_to_run(store: Store, _held: list[JobRow]) -> None:
    """Push jobs that run at once."""
    jobs = [NewJob(job, "big", "1") for job in new_ids(BATCH)]
    wish = Claim("big", BATCH, "other", ids=tuple((job.id, "w1") for job in jobs))
    assert all(one.token for one in store.push(jobs, claim=wish))


def select_who_died(store: Store, _held: list[JobRow]) -> None:
    """Search all dead letters of a queue that has a dead-letter queue."""
    for queue in ("big", "laned"):
        store.configure(queue, {"dead_letter": f"letters-of-{queue}"})
    died = Condition("state", "=", "dead"), Condition("dead_from", "=", "big")
    assert store.select(Query(where=died, limit=BATCH)).rows == []
    for queue in ("big", "laned"):
        store.configure(queue, {"dead_letter": None})


def keep_for_less(store: Store, _held: list[JobRow]) -> None:
    """Delete finished jobs in portions: of one outcome among many others, and of a short history."""
    store.configure("mixed", {"history_ttl_done": 60.0})
    store.configure("short", {"history_max": 200})
    store.maintain(seconds=0)
    assert len(store.select(Query("history", (Condition("queue", "=", "short"),), limit=300)).rows) == 200
    store.configure("mixed", {"history_ttl_done": None})


Operation = Callable[[Store, list[JobRow]], object]

OPERATIONS: dict[str, Operation] = {
    "push one": lambda store, _: store.push([NewJob(new_ids(1)[0], "big", "1")]),
    "push a batch": lambda store, _: store.push([NewJob(job, "big", "1") for job in new_ids(BATCH)]),
    "push with a key": lambda store, _: store.push([NewJob(new_ids(1)[0], "big", "1", key="k")]),
    "claim": lambda store, _: store.claim(Claim("big", BATCH, "other", "w1")),
    "reserve": lambda store, _: store.claim(Claim("big", BATCH, "other")),
    "reserve for a holder": lambda store, _: store.claim(Claim("big", BATCH, "other", holder="h")),
    "pop": lambda store, _: pop(store, Claim("big", 1, "other")).rows,
    "commit": lambda store, held: store.settle([Commit(job.lease) for job in held]),
    "roll back": lambda store, held: store.settle([Rollback(job.lease, 5, "boom") for job in held]),
    "move": lambda store, held: store.settle([Move(job.lease, "next") for job in held]),
    "pass": lambda store, held: store.settle([Pass(job.lease, PASSED, Commit(job.lease)) for job in held]),
    "pass and divide": lambda store, held: store.settle(
        [Pass(job.lease, PASSED, Commit(job.lease, jobs=(part_of(job),))) for job in held]
    ),
    "extend": lambda store, held: store.settle([Extend(held[0].lease, 9)]),
    "progress": lambda store, held: store.settle([Progress(held[0].lease, 0.5)]),
    "beat": lambda store, _: store.beat([WORKER]),
    "recover": lambda store, _: store.recover(),
    "workers and holders": lambda store, _: store.workers(holders=True),
    "next due": lambda store, _: due_of(store, "big"),
    "fetch": lambda store, held: store.fetch([job.id for job in held]),
    "select the newest": lambda store, _: store.select(Query(limit=BATCH)),
    "select the newest of history": lambda store, _: store.select(Query("history", OF_BIG, limit=BATCH)),
    "select who died": select_who_died,
    "select by id": lambda store, _: pages_of(store, Query("live", order="id", limit=BATCH)),
    "select by the end": lambda store, _: pages_of(store, Query("history", OF_BIG, order="finished", limit=BATCH)),
    "select what is reserved": lambda store, held: store.select(
        Query("live", (*OF_BIG, Condition("token", "=", held[0].token)), order="id", limit=BATCH)
    ),
    "select of one rank": lambda store, _: pages_of(store, of_one_rank("big", UNLANED)),
    "select of one rank in a lane": lambda store, _: pages_of(store, of_one_rank("laned", 7)),
    "select who waits": lambda store, _: store.select(
        Query("live", (Condition("waits_for", "=", semaphore_slot("x")),), order="arrival", limit=BATCH)
    ),
    "select who holds": lambda store, _: store.select(
        Query("live", (Condition("holds", "=", semaphore_slot("x")),), order="id", limit=BATCH)
    ),
    "events of now": events_of_now,
    "events of a period": lambda store, _: events_of(store, ENDS),
    "select of a flow": lambda store, held: store.select(Query(where=(Condition("flow_root", "=", held[0].id),))),
    "cancel": lambda store, held: store.cancel([held[0].id]),
    "delete": lambda store, held: store.delete([JobRef(job.id) for job in held]),
    "delete finished jobs": lambda store, _: store.delete(ended(store)),
    "purge": lambda store, _: purge(store, "big"),
    "maintain": lambda store, _: store.maintain(),
    "keep for less": keep_for_less,
    "push to a lane": lambda store, _: store.push([NewJob(new_ids(1)[0], "laned", "1", lane=7)]),
    # Twice, as a store may learn only by the first that the queue has lanes.
    "claim of lanes": lambda store, _: [store.claim(Claim("laned", BATCH // 2, "other", "w1")) for _ in range(2)],
    "claim one of lanes": lambda store, _: [store.claim(Claim("laned", 1, "other", "w1")) for _ in range(2)],
    "claim of some lanes": lambda store, _: store.claim(Claim("laned", 16, "other", "w1", lanes=(9, 24))),
    "pop of lanes": lambda store, _: pop(store, Claim("laned", 1, "other")).rows,
    "depths of lanes": lambda store, _: store.lane_depths("laned", range(1, 7), 300),
    "depths of all lanes": lambda store, _: store.lane_depths("laned", at_most=20),
    "next due of lanes": lambda store, _: due_of(store, "laned"),
    "next due of all": lambda store, _: store.stats(["laned", "nowhere", "big"], ["next_due"]),
    # What these leave running is read by some of the others: they come last.
    "push a batch once more": lambda store, _: store.push(
        [NewJob(job, "big", "1") for job in new_ids(BATCH)], repeat=True
    ),
    "push to run": push_to_run,
    "claim by ids": claim_by_ids,
}

OF_HELD = {"workers and holders", "events of now", "events of a period"}
LONGER = {name for name in OPERATIONS if "lanes" in name} | {"next due of all", "keep for less", *OF_HELD}
"""What looks at up to 64 lanes, at three priorities each, at all that the operations before have leased, or at a
portion of a history."""


def fill(amounts: Amounts, number: str, id_of: str, true: str) -> list[str]:
    """Return the statements that fill the tables; `number` yields i from 1 to n, `id_of` makes an id of i + offset."""
    both = "enqueued_at, payload, attempts, failures, max_attempts"
    wanted = [
        (f"'big', {UNLANED}, 'queued', 0, 0, 1000 + i", amounts.each),
        (f"'big', {UNLANED}, 'queued', 50, 50, {FAR} + i", amounts.each),
        (f"'laned', 1 + i % {LANES}, 'queued', i % 3, i % 3, 1000 + i", amounts.in_lanes),
        (f"'laned', 1 + i % {LANES}, 'queued', 50 + i % 3, 50 + i % 3, {FAR} + i", amounts.in_lanes // 10),
    ]
    statements, offset = [], 0
    for values, n in wanted:
        statements.append(
            f"INSERT INTO stanchion_jobs (id, queue, lane, state, priority, rank, run_at, {both}, cancel_requested) "
            f"SELECT {id_of.format(offset=offset)}, "
            f"{values}, 1000, '{{}}', 0, 0, 25, {true} FROM {number.format(n=n)}"
        )
        offset += n
    lately = int((time.time() - 3600) * SECOND)
    ended = (("big", "done", FAR, amounts.each), ("mixed", "dead", lately, 40_000), ("short", "done", lately, 300))
    for queue, state, finished_at, n in ended:
        statements.append(
            f"INSERT INTO stanchion_history (id, queue, lane, state, priority, run_at, {both}, finished_at) "
            f"SELECT {id_of.format(offset=offset)}, '{queue}', {UNLANED}, '{state}', 0, i, i, '{{}}', "
            f"1, 0, 25, {finished_at} + i FROM {number.format(n=n)}"
        )
        offset += n
    return statements


# -- SQLite: steps of its virtual machine


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("plans") / "jobs.db"
    store = open_store(f"sqlite:///{path}?synchronous=off")
    store.setup()
    store.configure("big", {})
    store.configure("laned", {"lanes": LANES, "uses_lanes": True})
    numbers = "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) SELECT i FROM n) AS n"
    with sqlite3.connect(path) as connection:
        for statement in fill(MANY, numbers, "printf('%08x-0000-7000-8000-000000000000', i + {offset})", "0"):
            connection.execute(statement)
    yield store
    store.close()


@pytest.mark.parametrize("name", OPERATIONS)
def test_sqlite_takes_a_bounded_number_of_steps(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    held = sqlite_store.claim(Claim("big", BATCH, name)).rows
    assert len(held) == BATCH
    steps = 0

    def tick() -> int:
        nonlocal steps
        steps += 100
        return 0

    cursor = sqlite_store.dialect.cursor  # type: ignore[attr-defined]

    def counted(driver: sqlite3.Connection) -> sqlite3.Cursor:
        driver.set_progress_handler(tick, 100)
        return cursor(driver)  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite_store.dialect, "cursor", counted)  # type: ignore[attr-defined]
    OPERATIONS[name](sqlite_store, held)
    assert steps < (100_000 if name in LONGER else 50_000), f"{name}: {steps} steps for at most {BATCH} jobs"


# -- PostgreSQL: blocks of its buffers


@pytest.fixture(scope="module")
def big_url(new_pg_database: NewDatabase) -> str:
    url = new_pg_database()
    store = open_store(url)
    store.setup()
    store.configure("big", {})
    store.configure("laned", {"lanes": LANES, "uses_lanes": True})
    store.close()
    numbers = "generate_series(1, {n}) AS n (i)"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in fill(PLENTY, numbers, "CAST(lpad(to_hex(i + {offset}), 32, '0') AS uuid)", "false"):
            connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
    return url


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPERATIONS)
def test_postgresql_reads_a_bounded_number_of_blocks(big_url: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    app = Stanchion(big_url)
    held = app.store.claim(Claim("big", BATCH, name)).rows
    assert len(held) == BATCH
    ran: list[tuple[str, Any]] = []
    execute = CursorRunner.execute

    def noted(self: CursorRunner, statement: Any, params: Any, cursor: Any = None) -> None:
        compiled = self._compiler.compiled(statement)
        assert compiled.positions is not None
        ran.append((compiled.sql, compiled.positions({**self._given, **compiled.fixed, **(params or {})})))
        execute(self, statement, params, cursor)

    monkeypatch.setattr(CursorRunner, "execute", noted)
    OPERATIONS[name](app.store, held)
    app.close()
    assert ran
    with psycopg.connect(big_url, cursor_factory=psycopg.RawCursor) as connection:
        for sql, params in ran:
            (explained,) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params).fetchall()
            plan = explained[0][0]["Plan"]
            connection.rollback()
            blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            # A hundred jobs take some dozen blocks each to change: heap, four indexes, history and its two.
            assert blocks < (6_000 if name in LONGER else 2_500), (
                f"{name}: {blocks} blocks\n{sql}\n{json.dumps(plan, indent=1)}"
            )
            scanned = [
                node
                for node in nodes(plan)
                if node["Node Type"] == "Seq Scan" and node["Relation Name"] in {"stanchion_jobs", "stanchion_history"}
            ]
            assert not scanned, f"{name}: scans the whole table\n{sql}\n{json.dumps(plan, indent=1)}"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


# -- MariaDB: rows that the storage engine reads


@pytest.fixture(scope="module")
def big_mariadb_url(mariadb_server: MariaDBServer) -> Iterator[str]:
    url = mariadb_server.create_database("plans")
    store = open_store(url)
    store.setup()
    store.configure("big", {})
    store.configure("laned", {"lanes": LANES, "uses_lanes": True})
    store.close()
    id_of = "CONCAT(LPAD(LOWER(HEX(i + {offset})), 8, '0'), '-0000-7000-8000-000000000000')"
    with mariadb_server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("USE plans")
        for statement in fill(MANY, "(SELECT seq AS i FROM seq_1_to_{n}) AS n", id_of, "0"):
            cursor.execute(statement)
        cursor.execute("ANALYZE TABLE stanchion_jobs, stanchion_history")
    yield url
    mariadb_server.drop_database("plans")


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPERATIONS)
def test_mariadb_reads_a_bounded_number_of_rows(
    big_mariadb_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    app = Stanchion(big_mariadb_url)
    held = app.store.claim(Claim("big", BATCH, name)).rows
    assert len(held) == BATCH
    before: dict[Any, int] = {}
    cursor = app.store.dialect.cursor  # type: ignore[attr-defined]

    def counted(driver: Any) -> Any:
        before.setdefault(driver, rows_read(driver))
        return cursor(driver)

    monkeypatch.setattr(app.store.dialect, "cursor", counted)  # type: ignore[attr-defined]
    OPERATIONS[name](app.store, held)
    read = sum(rows_read(driver) - start for driver, start in before.items())
    app.close()
    most = 12_000 if name == "keep for less" else 5_000 if name in LONGER else 2_500  # a portion has 5,000, read twice
    assert 0 < read < most, f"{name}: {read} rows for at most {BATCH} jobs"


def rows_read(driver: Any) -> int:
    with driver.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in cursor.fetchall())
