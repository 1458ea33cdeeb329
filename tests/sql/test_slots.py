"""Slots and flows on the SQL stores: what a claim and a grant read, races for slots, the caller's transaction."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from random import Random
from typing import Any

import pytest

from stanchion.core.backoff import retry_until
from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, NodeState, OpenFlow
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.records.slots import Slot
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.limits import Limits, limits_in, limits_text
from stanchion.stores.rules.capacity.slots import node_slot, order_slot, semaphore_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from stanchion.stores.sql.engine.runner import OwnCursor
from stanchion.stores.sql.store import SqlStore
from stanchion_conformance.harness import find_jobs, sizes_of, slot_of, transaction

PARKED = 20_000
OTHERS = 6_000
SLOT = limits_text(Limits(("slot",)))


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        yield store


def jobs(count: int, queue: str = "q", **given: Any) -> list[NewJob]:
    return [NewJob(job, queue, "1", **given) for job in new_ids(count)]


def used_in(store: Any) -> dict[Slot, int]:
    """Return how many are used of each slot."""
    with store.database.connection() as connection:
        rows = connection.exec_driver_sql("SELECT kind, queue, name, used FROM stanchion_slots").fetchall()
    return {Slot(*row[:3]): row[3] for row in rows}


def finish(store: Store, rows: Sequence[JobRow]) -> None:
    assert None not in store.settle([Commit(row.lease) for row in rows])


# -- bounded work


class Work:
    """Measures what a database does for one operation: steps, blocks or rows read."""

    def __init__(self, store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store, self._monkeypatch = store, monkeypatch
        if store.capabilities.name == "postgresql":  # what it reads would be counted too
            with store.database.connection() as connection:
                connection.exec_driver_sql("ALTER TABLE stanchion_jobs SET (autovacuum_enabled = off)")

    def of(self, operation: Callable[[], object]) -> int:
        kind = self._store.capabilities.name
        return getattr(self, f"_{kind}")(operation)  # type: ignore[no-any-return]

    def _sqlite(self, operation: Callable[[], object]) -> int:
        steps = 0

        def tick() -> int:
            nonlocal steps
            steps += 100
            return 0

        cursor = self._store.dialect.cursor

        def counted(driver: sqlite3.Connection) -> OwnCursor:
            driver.set_progress_handler(tick, 100)
            return cursor(driver)

        with self._monkeypatch.context() as patch:
            patch.setattr(self._store.dialect, "cursor", counted)
            operation()
        return steps

    def _postgresql(self, operation: Callable[[], object]) -> int:
        before = self._blocks()
        operation()
        return self._blocks() - before

    def _blocks(self) -> int:
        self._store.database.close()  # a connection that ends tells at once what it has read
        with self._store.database.connection() as connection:
            connection.exec_driver_sql("SELECT pg_sleep(1.1)")
            return int(
                connection.exec_driver_sql(
                    "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)"
                    " FROM pg_statio_user_tables"
                ).scalar_one()
            )

    def _mariadb(self, operation: Callable[[], object]) -> int:
        before: dict[Any, int] = {}
        cursor = self._store.dialect.cursor

        def counted(driver: Any) -> Any:
            before.setdefault(driver, _rows_read(driver))
            return cursor(driver)

        with self._monkeypatch.context() as patch:
            patch.setattr(self._store.dialect, "cursor", counted)
            operation()
        return sum(_rows_read(driver) - start for driver, start in before.items())


def _rows_read(driver: Any) -> int:
    with driver.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _, count in cursor.fetchall())


@pytest.fixture
def work(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(store, monkeypatch)


def push_all(store: SqlStore, new: Sequence[NewJob]) -> None:
    for start in range(0, len(new), 2000):
        store.push(new[start : start + 2000])


LITTLE = {"sqlite": 60_000, "postgresql": 6_000, "mariadb": 5_000}
"""As much as a hundred jobs may take, in the units of each database; a walk through all who wait takes more."""


@pytest.mark.nightly
def test_the_slots_of_others_cost_nothing(store: SqlStore, work: Work) -> None:
    push_all(store, [job._replace(order_key=job.id) for job in jobs(OTHERS, "others")])
    for _ in range(0, OTHERS, 1000):
        assert len(store.claim(Claim("others", 1000, "t1", "w")).rows) == 1000
    limit = LITTLE[store.capabilities.name]
    store.push(jobs(2, order_key="k"))
    taken: list[JobRow] = []
    assert work.of(lambda: taken.extend(store.claim(Claim("q", 2, "t2", "w")).rows)) < limit
    assert len(taken) == 1, "the second of the key is parked"
    assert work.of(lambda: finish(store, taken)) < limit, "which grants the key to the second"
    assert work.of(lambda: taken.extend(store.claim(Claim("q", 2, "t3", "w")).rows)) < limit
    assert work.of(lambda: finish(store, taken[1:])) < limit, "which deletes the row of the key"


@pytest.mark.nightly
def test_a_line_at_a_full_slot_costs_a_claim_nothing(store: SqlStore, work: Work) -> None:
    store.set_semaphore("slot", 10)
    push_all(store, jobs(PARKED, limits=SLOT))
    held = store.claim(Claim("q", 10, "t1", "w")).rows
    while store.claim(Claim("q", 10, "t2", "w")).retry_in is not None:
        pass
    assert sizes_of(store, "q").waiting == PARKED - 10
    plain = jobs(100)
    store.push(plain)
    limit = LITTLE[store.capabilities.name]
    taken: list[JobRow] = []
    assert work.of(lambda: taken.extend(store.claim(Claim("q", 100, "t3", "w")).rows)) < limit
    assert [row.id for row in taken] == [job.id for job in plain]
    assert work.of(lambda: finish(store, taken)) < limit
    assert work.of(lambda: finish(store, held)) < limit
    assert work.of(lambda: taken.extend(store.claim(Claim("q", 10, "t4", "w")).rows)) < limit
    assert len(taken) == 110
    assert work.of(lambda: store.settle([Rollback(row.lease, 60.0) for row in taken[100:]])) < limit
    assert work.of(store.recover) < limit


@pytest.mark.nightly_except("sqlite")
def test_a_line_behind_an_order_key_costs_its_next_nothing(store: SqlStore, work: Work) -> None:
    waiters = jobs(PARKED, order_key="k")
    push_all(store, waiters)
    (first,) = store.claim(Claim("q", 10, "t1", "w")).rows
    assert first.id == waiters[0].id
    limit = LITTLE[store.capabilities.name]
    taken: list[JobRow] = []
    assert work.of(lambda: finish(store, [first])) < limit
    assert work.of(lambda: taken.extend(store.claim(Claim("q", 1, "t2", "w")).rows)) < limit
    assert [row.id for row in taken] == [waiters[1].id]


@pytest.mark.nightly
def test_a_large_group_costs_each_of_its_members_the_same(store: SqlStore, work: Work) -> None:
    root, after = new_ids(2)
    members = [job._replace(**FlowPosition(root, root, place)._asdict()) for place, job in enumerate(jobs(PARKED))]
    then = jobs(1, **FlowPosition(root, after, 0, root)._asdict(), **waits_at(node_slot(root)))
    store.change_flows([OpenFlow([FlowNode(root, root, "list", size=0, closed=False), FlowNode(after, root)], then)])
    for start in range(0, PARKED, 2000):
        assert store.change_flows([ExtendFlow(root, members[start : start + 2000])]) == [True]
    store.change_flows([CloseFlow(root)])
    limit = LITTLE[store.capabilities.name]
    for _ in range(2):
        rows = store.claim(Claim("q", 100, "t1", "w")).rows
        assert work.of(lambda rows=rows: finish(store, rows)) < limit  # type: ignore[misc]
    assert work.of(lambda: find_jobs(store, flow_root=root, limit=100)) < limit * (PARKED // 100)
    assert work.of(lambda: store.flow_ends(root, limit=100)) < limit
    while rows := store.claim(Claim("q", 1000, "t1", "w")).rows:
        finish(store, rows)
    assert [node.state for node in store.flow_nodes(root)] == [NodeState.DONE, NodeState.DONE]


@pytest.mark.nightly
def test_those_of_a_flow_are_found_without_a_walk(store: SqlStore, work: Work) -> None:
    push_all(store, jobs(PARKED))
    root = new_id()
    member = jobs(1, **FlowPosition(root, root, 0)._asdict())
    store.change_flows([OpenFlow([FlowNode(root, root)], member)])
    push_all(store, jobs(PARKED))
    found: list[JobRow] = []
    assert work.of(lambda: found.extend(find_jobs(store, flow_root=root))) < LITTLE[store.capabilities.name] // 10
    assert [row.id for row in found] == [member[0].id]


# -- races


@pytest.mark.slow
@pytest.mark.nightly_except("postgresql", "sqlite")
def test_overlapping_semaphores_are_never_over_taken_and_nobody_is_left_behind(url: str) -> None:
    names = [f"s{n}" for n in range(6)]
    capacity = {name: 1 + n % 3 for n, name in enumerate(names)}
    total, claimers = 120, 6
    running: Counter[str] = Counter()
    done: list[str] = []
    wrong: list[str] = []
    lock = threading.Lock()
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(open_store(url))) for _ in range(claimers)]
        for name, slots in capacity.items():
            stores[0].set_semaphore(name, slots)
        random = Random(7)
        wanted = [tuple(random.sample(names, random.randint(1, 4))) for _ in range(total)]
        stores[0].push(
            [
                NewJob(job, "q", "1", limits=limits_text(Limits(some)))
                for job, some in zip(new_ids(total), wanted, strict=True)
            ]
        )

        def run(n: int) -> None:
            store, random, idle, deadline = stores[n], Random(n), 0, time.monotonic() + 600
            while len(done) < total and idle < 400:
                wish = Claim("q", random.randint(1, 5), new_id(), f"w{n}")
                rows = retry_until(lambda again, wish=wish: store.claim(wish._replace(repeat=again)).rows, deadline)  # type: ignore[misc]
                idle = 0 if rows else idle + 1
                slots = Counter(slot for row in rows for slot in _semaphores(row))
                with lock:
                    running.update(slots)
                    wrong.extend(name for name in names if running[name] > capacity[name])
                outcomes = [
                    Rollback(row.lease, 0.0, "again") if random.random() < 0.3 else Commit(row.lease) for row in rows
                ]
                with lock:
                    running.subtract(slots)
                states = retry_until(lambda again, words=outcomes: store.settle(words, repeat=again), deadline)  # type: ignore[misc]
                assert None not in states
                done.extend(one.lease.id for one in outcomes if isinstance(one, Commit))

        threads = [threading.Thread(target=run, args=(n,)) for n in range(claimers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(done) == len(set(done)) == total
        assert [(one.held, one.waiting) for one in stores[0].semaphores()] == [(0, 0)] * len(names)


def _semaphores(row: JobRow) -> tuple[str, ...]:
    return limits_in(row.limits).semaphores


@pytest.mark.one_in_each("url", "kind")
@pytest.mark.parametrize("kind", ["semaphore", "order key"])
def test_who_parks_and_who_sets_free_never_miss_each_other(url: str, kind: str) -> None:
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(closing(open_store(url))) for _ in range(2))
        ours.set_semaphore("slot", 1)
        given = {"limits": SLOT} if kind == "semaphore" else {"order_key": "k"}
        for _ in range(60):
            first, second = jobs(2, **given)
            ours.push([first])
            held = ours.claim(Claim("q", 1, new_id(), "w")).rows
            assert [row.id for row in held] == [first.id]
            ours.push([second])
            got: list[JobRow] = []
            parking = threading.Thread(
                target=lambda got=got: got.extend(theirs.claim(Claim("q", 1, new_id(), "w")).rows)
            )
            parking.start()
            finish(ours, held)
            parking.join()
            got = got or ours.claim(Claim("q", 1, new_id(), "w")).rows
            assert [row.id for row in got] == [second.id]
            finish(ours, got)
        assert used_in(ours) == {semaphore_slot("slot"): 0}, "the rows of order keys are gone"


def test_an_order_key_leaves_no_row_behind(store: SqlStore) -> None:
    waiters = jobs(3, order_key="k")
    store.push(waiters)
    rows = store.claim(Claim("q", 3, "t1", "w")).rows
    assert used_in(store) == {order_slot("q", "k"): 1}
    store.cancel([waiters[1].id])
    finish(store, rows)
    (last,) = store.claim(Claim("q", 3, "t2", "w")).rows
    assert last.id == waiters[2].id
    store.settle([Bury(last.lease, "boom")])
    assert used_in(store) == {}


# -- the caller's transaction


@contextmanager
def undone(store: Store) -> Iterator[Any]:
    """Open a transaction that is rolled back."""
    with suppress(Undo), transaction(store) as tx:
        yield tx
        raise Undo


class Undo(Exception):
    """Rolls back."""


def test_a_flow_comes_and_goes_with_the_transaction(store: SqlStore) -> None:
    root = new_id()
    members = jobs(2, **FlowPosition(root, root, 0)._asdict())

    with undone(store) as tx:
        store.change_flows([OpenFlow([FlowNode(root, root)], members)], tx=tx)
    assert store.flow_nodes(root) == []
    assert store.fetch([job.id for job in members]) == {}
    with transaction(store) as tx:
        store.change_flows([OpenFlow([FlowNode(root, root, size=0, closed=False)])], tx=tx)
        assert store.change_flows([ExtendFlow(root, members)], tx=tx) == [True]
    assert store.flow_nodes(root)[0].size == 2
    assert len(store.fetch([job.id for job in members])) == 2


def test_what_follows_a_commit_comes_and_goes_with_the_transaction(store: SqlStore) -> None:
    store.set_semaphore("slot", 1)
    store.push(jobs(2, limits=SLOT))
    (row,) = store.claim(Claim("q", 2, "t1", "w")).rows

    with undone(store) as tx:
        assert store.settle([Commit(row.lease)], tx=tx) != [None]
    assert sizes_of(store, "q").waiting == 1
    assert slot_of(store, "slot")[0] == [row.id]
    with transaction(store) as tx:
        assert store.settle([Commit(row.lease)], tx=tx) != [None]
    assert sizes_of(store, "q").ready == 1


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)  # with one writer no other could park
@pytest.mark.parametrize("given", [{"limits": SLOT}, {"order_key": "k"}], ids=["semaphore", "order key"])
def test_a_transaction_with_an_old_view_sees_who_waits_by_now(url: str, given: dict[str, Any]) -> None:
    """A caller's transaction on MariaDB reads, if not told otherwise, as of its beginning."""
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        assert isinstance(store, SqlStore)
        store.set_semaphore("slot", 1)
        first, second = jobs(2, **given)
        store.push([first])
        (row,) = store.claim(Claim("q", 1, "t1", "w")).rows
        with store.database.engine.connect() as connection:
            level = "REPEATABLE READ" if store.capabilities.name == "mariadb" else "READ COMMITTED"
            if store.capabilities.name != "sqlite":
                connection.execution_options(isolation_level=level)
            with connection.begin():
                connection.exec_driver_sql("SELECT count(*) FROM stanchion_jobs").scalar_one()
                other.push([second])
                assert other.claim(Claim("q", 1, "t2", "w")).rows == []
                assert store.settle([Commit(row.lease)], tx=connection) != [None]
        assert [row.id for row in other.claim(Claim("q", 1, "t3", "w")).rows] == [second.id]
