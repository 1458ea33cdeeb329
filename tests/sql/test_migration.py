"""A database of an older version is brought up to date, with its jobs, and while workers of that version go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect
from sqlalchemy.engine import Connection

from stanchion.core.ids import new_id, new_ids
from stanchion.errors import SchemaMismatch
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Publication
from stanchion.stores.registry import open_store
from stanchion.stores.rules.limits import Limits, limits_text
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import counts_of, sizes_of

FOLDER = Path(__file__).parent
"""Has a folder for each older version, with the tables as `stanchion setup --sql` of that version printed them."""

JOBS = (
    "INSERT INTO stanchion_jobs (id, queue, lane, state, priority, run_at, enqueued_at, payload, attempts, failures,"
    " max_attempts, cancel_requested) VALUES ('{id}', 'q', 0, 'queued', 0, 1000, 1000, '{{}}', 0, 0, 25, {false})"
)
QUEUE = (
    "INSERT INTO stanchion_queues (name, paused, lanes, lanes_per_tenant, history_ttl, lease, rate_tokens, rate_at)"
    " VALUES ('{name}', {false}, 1, 1, 3600, 30, 0, 0)"
)


@pytest.fixture(params=[f"{name}, version {n}" for name in ("sqlite", "postgresql", "mariadb") for n in (1, 2, 3)])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with tables of an older version."""
    urls = {"postgresql": "pg_url", "mariadb": "mariadb_url"}
    path = f"sqlite:///{tmp_path / 'jobs.db'}"
    name, _, version = request.param.partition(", version ")
    url: str = path if name == "sqlite" else request.getfixturevalue(urls[name])
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        with store.database.connection() as connection:
            for statement in (FOLDER / f"version_{version}" / f"{name}.sql").read_text().split(";\n"):
                if statement:
                    connection.exec_driver_sql(statement)
    return url


@pytest.fixture
def store(old_url: str) -> Iterator[SqlStore]:
    with closing(open_store(old_url)) as store:
        assert isinstance(store, SqlStore)
        yield store


def add_as_before(connection: Connection, queue: str | None, *ids: str) -> None:
    """Insert what a worker of version 1 does, which knows none of the newer columns."""
    if queue is not None:
        connection.exec_driver_sql(QUEUE.format(name=queue, false="false"))
    for one in ids:
        connection.exec_driver_sql(JOBS.format(id=one, false="false"))


def commit(store: SqlStore, rows: list[JobRow]) -> None:
    assert None not in store.settle([Commit(row.id, row.token or "") for row in rows])


def test_jobs_are_brought_along(store: SqlStore) -> None:
    ids = new_ids(4)
    with store.database.connection() as connection:
        add_as_before(connection, "q", *ids[:2])
    if not store.dialect.makes_schema:
        with pytest.raises(SchemaMismatch, match="stanchion setup"):
            store.check()
    store.setup()
    store.setup()
    store.check()
    rows = store.claim(Claim("q", 10, "t1", "w")).rows
    assert [(row.id, row.held, row.waits_for) for row in rows] == [(one, 0, None) for one in ids[:2]]
    commit(store, rows)
    assert store.queues()[0].history_ttl == 3600
    assert not store.queues()[0].laned
    with store.database.connection() as connection:
        add_as_before(connection, "p", *ids[2:])
    rows = store.claim(Claim("q", 10, "t2", "w")).rows
    assert [row.id for row in rows] == ids[2:]
    commit(store, rows)
    assert counts_of(store, "q").committed == 4


def test_all_that_is_new_works_there(store: SqlStore) -> None:
    store.setup()
    store.set_semaphore("slot", 1)
    first, second, root, after = new_ids(4)
    slot = limits_text(Limits(("slot",)))
    store.push([NewJob(one, "q", "1", limits=slot, order_key="k") for one in (first, second)])
    for one in (first, second):
        rows = store.claim(Claim("q", 10, "t", "w")).rows
        assert [row.id for row in rows] == [one]
        commit(store, rows)
    store.change_flows([OpenFlow([FlowNode(root, root)], [NewJob(after, "q", "1", flow=f"{root}:{root}:0:")])])
    commit(store, store.claim(Claim("q", 10, "t", "w")).rows)
    assert [node.state for node in store.flow_nodes(root)] == ["done"]
    store.configure("q", {"lanes": 4, "laned": True})
    assert store.compare_and_set("kind", "name", "text", 0)
    store.stage("write", "attempt", [NewJob(new_id(), "out", "1")])
    assert store.publish(Publication("write", (("attempt", 1),)))
    assert sizes_of(store, "out").ready == 1


def test_the_indexes_are_those_of_a_new_database(store: SqlStore) -> None:
    store.setup()
    migrated = _indexes(store)
    assert {"stanchion_jobs_gate", "stanchion_jobs_order", "stanchion_jobs_flow", "stanchion_history_flow"} <= migrated
    with store.database.connection() as connection:
        for name in (
            "jobs",
            "history",
            "queues",
            "tallies",
            "counts",
            "workers",
            "gates",
            "nodes",
            "ends",
            "notes",
            "stage",
            "meta",
        ):
            connection.exec_driver_sql(f"DROP TABLE stanchion_{name}")
    store.setup()
    assert _indexes(store) == migrated


def test_the_script_is_the_step_from_there(store: SqlStore) -> None:
    steps = store.setup(dry_run=True)
    assert store.setup(dry_run=True) == steps, "telling them changed something"
    with store.database.connection() as connection:
        for step in steps:
            connection.exec_driver_sql(step)
    assert store.setup(dry_run=True) == []
    store.check()
    scripted = _indexes(store)
    store.setup()
    assert _indexes(store) == scripted
    store.stage("write", "attempt", [NewJob(new_id(), "out", "1")])
    assert store.publish(Publication("write", (("attempt", 1),)))


def test_a_script_makes_no_database(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        assert any("CREATE TABLE stanchion_jobs" in step for step in store.setup(dry_run=True))
    assert list(tmp_path.iterdir()) == []


def _indexes(store: SqlStore) -> set[str | None]:
    with store.database.connection() as connection:
        return {
            index["name"]
            for table in ("stanchion_jobs", "stanchion_history")
            for index in inspect(connection).get_indexes(table)
        }
