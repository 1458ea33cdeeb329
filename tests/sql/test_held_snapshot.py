"""What PostgreSQL reads beside a transaction that stays open, and where statistics are behind: blocks, told by itself.

Entries of jobs that are gone stay in the indexes for as long as a snapshot might see them. A statement that goes by
ids, or by what is there, doesn't read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from tests.servers.postgres import PostgresServer

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.postgres.connections.sessions import Session
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store

pytestmark = pytest.mark.slow

QUEUE, WORKER = "held", "worker"
DEAD = 20_000
"""Jobs that came and went while the snapshot was held; their entries take hundreds of blocks in each index."""

FEW = 100
"""Blocks that a step of a few jobs may read."""

_TELLS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}
_LIVE = "id, queue, lane, priority, run_at, enqueued_at, payload, attempts, failures, max_attempts"
_VALUES = f"'{QUEUE}', {UNLANED}, 0, i, i, '1', 1, 0, 25"
_ID = "CAST(lpad(to_hex(i), 32, '0') AS uuid)"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that neither vacuums nor analyzes by itself."""
    with PostgresServer(fsync=False, settings={"autovacuum": "off", **_TELLS}) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """An empty store."""
    url = server.create_database(f"held_{abs(hash(request.node.name)):x}")
    with closing(open_store(url)) as store:
        store.setup()
        store.configure(QUEUE, {})
    return url


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot, as an idle transaction does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM stanchion_queues")
        yield
        connection.rollback()


def change(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def run_and_end(url: str, jobs: int = DEAD) -> None:
    """Leave entries of running jobs that are gone."""
    change(
        url,
        f"INSERT INTO stanchion_jobs (state, rank, worker, token, started_at, cancel_requested, {_LIVE}) "
        f"SELECT 'running', 0, 'gone', 'gone', i, false, {_ID}, {_VALUES} FROM generate_series(1, {jobs}) AS n (i)",
        f"DELETE FROM stanchion_jobs WHERE queue = '{QUEUE}'",
    )


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The plans that sessions of this process have carried out, as auto_explain tells them."""
    told: list[dict[str, Any]] = []
    connect = Session.connect

    def heard(diagnostic: psycopg.errors.Diagnostic) -> None:
        _, _, plan = (diagnostic.message_primary or "").partition("plan:\n")
        if plan:
            told.append(json.loads(plan)["Plan"])

    def listening(*args: Any, **options: Any) -> Session:
        session = connect(*args, **options)
        session.add_notice_handler(heard)
        return session

    monkeypatch.setattr(Session, "connect", listening)
    return told


def read_by(plans: list[dict[str, Any]], work: Callable[[], Any]) -> int:
    """Return the blocks that were read for this."""
    plans.clear()
    work()
    assert plans
    return sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)


def through(store: Store, jobs: int = 5) -> None:
    """Push, claim and commit some jobs, so that each statement has a plan."""
    store.push([NewJob(one, QUEUE, "1") for one in new_ids(jobs)])
    rows = store.claim(Claim(QUEUE, jobs, new_id(), WORKER)).rows
    assert None not in store.settle([Commit(row.lease) for row in rows])


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_commit_reads_its_jobs_alone(url: str, plans: list[dict[str, Any]], analyzed: bool) -> None:
    with snapshot(url), closing(open_store(url)) as store:
        run_and_end(url)
        if analyzed:
            change(url, "ANALYZE")
        for _ in range(6):
            through(store)
        store.push([NewJob(new_id(), QUEUE, "1")])
        (row,) = store.claim(Claim(QUEUE, 1, new_id(), WORKER)).rows
        assert read_by(plans, lambda: store.settle([Commit(row.lease)])) < FEW


@pytest.mark.parametrize("rows_at_first", [0, 1000])
def test_a_push_reads_no_history_that_grew_since_its_plan(
    url: str, plans: list[dict[str, Any]], rows_at_first: int
) -> None:
    def finish(count: int, start: int) -> str:
        return (
            f"INSERT INTO stanchion_history (state, finished_at, {_LIVE}) "
            f"SELECT 'done', i, {_ID}, {_VALUES} FROM generate_series({start + 1}, {start + count}) AS n (i)"
        )

    with closing(open_store(url)) as store:
        if rows_at_first:
            change(url, finish(rows_at_first, 0), "ANALYZE")
        for _ in range(7):  # from the sixth time on psycopg has it prepared
            store.push([NewJob(new_id(), QUEUE, "1")])
        change(url, finish(DEAD, rows_at_first))
        assert read_by(plans, lambda: store.push([NewJob(one, QUEUE, "1") for one in new_ids(5)])) < FEW


def test_a_push_of_ids_from_apart_stores_none_that_is_finished(url: str) -> None:
    with closing(open_store(url)) as store:
        old, new = new_id(), [new_id(), *new_ids(3)]
        store.push([NewJob(old, QUEUE, "1")])
        (row,) = store.claim(Claim(QUEUE, 1, new_id(), WORKER)).rows
        store.settle([Commit(row.lease)])
        far = "ffffffff-ffff-7fff-bfff-ffffffffffff"
        for ids in ([old], [old, *new], [far, old]):
            store.push([NewJob(one, QUEUE, "1") for one in ids])
        live = {row.id for row in store.claim(Claim(QUEUE, 10, new_id(), WORKER)).rows}
        assert live == {*new, far}


def of_running_jobs(plans: list[dict[str, Any]]) -> list[str]:
    """Return the indexes by which the plans have read jobs."""
    found: list[str] = []

    def look(plan: dict[str, Any]) -> None:
        if plan.get("Actual Loops") and str(plan.get("Index Name", "")).startswith("stanchion_jobs_running"):
            found.append(plan["Index Name"])
        for inner in plan.get("Plans", []):
            look(inner)

    for plan in plans:
        look(plan)
    return found


def test_jobs_of_dead_workers_are_looked_for_only_where_one_is_dead(url: str, plans: list[dict[str, Any]]) -> None:
    alive = WorkerRow(WORKER, "host", 1, (QUEUE,), 8, 10.0)
    with snapshot(url), closing(open_store(url)) as store:
        store.beat([alive])
        run_and_end(url)
        assert store.recover() == []  # orphans, too
        for _ in range(3):
            assert read_by(plans, store.recover) < FEW
            assert of_running_jobs(plans) == []
        assert read_by(plans, store.maintain) < 2 * FEW
        assert of_running_jobs(plans) == []
        store.clock_offset += 31.0
        store.beat([replace(alive, id="other")])
        assert read_by(plans, store.recover) > DEAD / 200
        assert of_running_jobs(plans)


def test_orphans_are_looked_for_once_in_three_heartbeats(url: str) -> None:
    with closing(open_store(url)) as store:
        for round_ in range(3):
            store.beat([WorkerRow(WORKER, "host", 1, (QUEUE,), 8, 10.0)])
            assert store.recover() == []
            store.push([NewJob(new_id(), QUEUE, "1", priority=round_)])
            (row,) = store.claim(Claim(QUEUE, 1, new_id(), f"without a row {round_}")).rows
            store.clock_offset += 31.0
            store.beat([WorkerRow(WORKER, "host", 1, (QUEUE,), 8, 10.0)])
            assert [job.id for job in store.recover()] == [row.id]


def test_a_purge_goes_on_where_the_last_one_ended(url: str, plans: list[dict[str, Any]]) -> None:
    finished = (
        f"INSERT INTO stanchion_history (state, finished_at, {_LIVE}) "
        f"SELECT 'done', i, {_ID}, {_VALUES} FROM generate_series(1, {DEAD}) AS n (i)"
    )
    with snapshot(url), closing(open_store(url)) as store:
        change(url, finished)
        while store.maintain():
            pass
        change(url, finished.replace("(1, ", f"({DEAD + 1}, ").replace(f", {DEAD})", f", {DEAD + 10})"))
        assert read_by(plans, store.maintain) < 2 * FEW
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM stanchion_history").fetchone() == (0,)
