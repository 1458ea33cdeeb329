"""Plain pushes to SQLite store what the general way stores, once, and leave the rest to it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id, new_ids
from stanchion.errors import CannotJoin
from stanchion.stores.fields.jobs import OF_PARTS
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.sql.engine.schema import queues
from stanchion.stores.sql.engine.turns import WriteLock
from stanchion.stores.sql.rows.new_jobs import OF_NEW_JOBS
from stanchion.stores.sql.rows.queue_row import COLUMNS
from stanchion.stores.sqlite.connections import OwnConnection
from stanchion.stores.sqlite.plain import PlainPushes
from stanchion.stores.sqlite.processes.writers import WriterQueue
from stanchion.stores.sqlite.store import SqliteStore, open_store
from stanchion_conformance.harness import in_threads

FULL: dict[str, Any] = {
    "task": "shop.charge",
    "priority": 7,
    "headers": '{"a":"b"}',
    "tenant": "acme",
    "origin": new_id(),
    "max_attempts": 3,
    "timeout": 1.5,
    "expires": 60.0,
}
OTHER: dict[str, Any] = {
    "key": "k",
    "order_key": "o",
    "limits": '{"hold":["s"]}',
    "flow_root": new_id(),
    "flow_node": new_id(),
    "flow_index": 0,
    "flow_after": "after",
    "lane": 0,
    "waits_kind": "semaphore",
    "waits_queue": "",
    "waits_name": "s",
    "trail": "[]",
    "key_ttl": 1.0,
}
"""The fields of jobs that are not plain."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.check()
        yield store


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each push of plain jobs, whether the plain way stored them."""
    seen: list[bool] = []
    push = PlainPushes.push

    def noted(self: PlainPushes, *given: Any) -> Any:
        answer = None
        try:
            answer = push(self, *given)
        finally:
            seen.append(answer is not None)
        return answer

    monkeypatch.setattr(PlainPushes, "push", noted)
    return seen


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def ids(path: Path) -> list[str]:
    return [row[0] for row in rows(path, "SELECT id FROM stanchion_jobs ORDER BY id")]


def pushed(path: Path) -> int:
    counted: int = rows(path, "SELECT sum(n) FROM stanchion_counter_events WHERE what = 'pushed'")[0][0]
    return counted


class TestTheSame:
    def test_columns(self) -> None:
        assert tuple(column.name for column in queues.columns) == COLUMNS
        assert set(OF_NEW_JOBS) <= set(LIVE_COLUMNS)
        others = {"id", "queue", "payload", "on_duplicate", "run_at", "delay", *OF_PARTS}
        assert {*FULL, *OTHER} | others == {*NewJob._fields}

    @pytest.mark.parametrize("times", [{"run_at": 5_000_000}, {"delay": 60.0}, {}], ids=str)
    def test_rows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: dict[str, Any]) -> None:
        jobs = [NewJob(job_id, queue, "[1]", **FULL, **times) for job_id, queue in zip(new_ids(3), "aab", strict=True)]
        jobs.append(NewJob(new_id(), "a", "null", **times))
        found = []
        for plain in (True, False):
            file = tmp_path / f"{plain}.db"
            if not plain:
                monkeypatch.setattr(PlainPushes, "takes", lambda *_: False)
            with closing(open_store(f"sqlite:///{file}")) as store:
                store.check()
                answers = store.push(jobs)
                live = [store.fetch([job.id])[job.id] for job in jobs]
                assert [(row.id, row.run_at, row.enqueued_at) for row in live] == [answer[:3] for answer in answers]
                assert {answer[3:] for answer in answers} == {(False, None)}
                delays = [row.run_at - (0 if "run_at" in times else row.enqueued_at) for row in live]
                others = [row._replace(run_at=delay, enqueued_at=0) for row, delay in zip(live, delays, strict=True)]
                counted = rows(file, "SELECT queue, what, n FROM stanchion_counter_events ORDER BY queue")
                found.append((others, counted, rows(file, "SELECT * FROM stanchion_queues ORDER BY name")))
        assert found[0] == found[1]
        assert found[0][1] == [("a", "pushed", 3), ("b", "pushed", 1)]

    def test_types(self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kinds = ", ".join(f'typeof("{name}")' for name in LIVE_COLUMNS)
        store.push([NewJob(new_id(), "plain", "1", **FULL)])
        monkeypatch.setattr(PlainPushes, "takes", lambda *_: False)
        store.push([NewJob(new_id(), "general", "1", **FULL)])
        assert len(set(rows(path, f"SELECT {kinds} FROM stanchion_jobs"))) == 1

    def test_a_fresh_queue_gets_its_row_again(self, store: SqliteStore, path: Path) -> None:
        store.push([NewJob(new_id(), "q", "1")])
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("DELETE FROM stanchion_queues")  # as another process that drops the queue
        store.push([NewJob(new_id(), "q", "1")])
        assert rows(path, "SELECT name FROM stanchion_queues") == [("q",)]

    def test_the_clock_of_a_test(self, store: SqliteStore, taken: list[bool]) -> None:
        store.clock_offset = 86_400.0
        (answer,) = store.push([NewJob(new_id(), "q", "1")])
        assert taken == [True]
        assert abs(answer.enqueued_at - store.now()) < 60_000_000


class TestNotPlain:
    @pytest.mark.parametrize("name", OTHER)
    def test_fields_that_concern_more_than_the_job(self, store: SqliteStore, name: str) -> None:
        job = NewJob(new_id(), "q", "1", **FULL)
        assert store._plain.takes([job])
        assert not store._plain.takes([job, job._replace(**{name: OTHER[name]})])

    def test_no_jobs(self, store: SqliteStore) -> None:
        assert store.push([]) == []

    def test_a_key_is_unique(self, store: SqliteStore, taken: list[bool]) -> None:
        first, second = (NewJob(job_id, "q", "1", key="k") for job_id in new_ids(2))
        store.push([first])
        (again,) = store.push([second])
        assert (again.id, again.duplicate) == (first.id, True)
        assert taken == [False, False]

    def test_a_transaction(self, store: SqliteStore, path: Path, taken: list[bool]) -> None:
        with store.transaction() as tx:
            store.push([NewJob(new_id(), "q", "1")], tx)
            assert ids(path) == []
        assert len(ids(path)) == 1
        assert taken == []

    def test_a_push_beside_an_open_transaction_of_its_thread(self, store: SqliteStore, path: Path) -> None:
        with store.transaction(), pytest.raises(CannotJoin, match="this call is not part of it"):
            store.push([NewJob(new_id(), "q", "1")])
        assert ids(path) == []

    def test_jobs_that_start(self, store: SqliteStore, taken: list[bool]) -> None:
        job = NewJob(new_id(), "q", "1")
        (started,) = store.push([job], claim=Claim("q", 1, "token", ids=((job.id, "worker"),)))
        assert started.token == "token"
        assert taken == []


class TestOnce:
    @pytest.mark.parametrize("ended", [False, True])
    def test_a_known_id(self, store: SqliteStore, path: Path, taken: list[bool], ended: bool) -> None:
        known, new = (NewJob(job_id, "q", "1") for job_id in new_ids(2))
        (first,) = store.push([known])
        if ended:
            store.cancel([known.id])
        assert store.push([known, new])[0] == first
        assert taken == [True, False]
        assert pushed(path) == 2
        assert ids(path) == [new.id] if ended else [known.id, new.id]

    def test_the_same_id_twice_in_a_call(self, store: SqliteStore, path: Path) -> None:
        job = NewJob(new_id(), "q", "1")
        assert len({answer.id for answer in store.push([job, job])}) == 1
        assert (ids(path), pushed(path)) == ([job.id], 1)

    @pytest.mark.parametrize("carried_out", [False, True])
    @pytest.mark.parametrize("step", ["INSERT INTO stanchion_counter_events", "COMMIT"])
    def test_an_error_of_the_file(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, step: str, carried_out: bool
    ) -> None:
        fails_at(monkeypatch, step, sqlite3.OperationalError("disk I/O error"), carried_out=carried_out)
        store.push(jobs := [NewJob(job_id, "q", "1") for job_id in new_ids(2)])
        assert (ids(path), pushed(path)) == ([job.id for job in jobs], 2)

    @pytest.mark.parametrize("step", ["BEGIN IMMEDIATE", "INSERT INTO stanchion_jobs", "COMMIT"])
    def test_an_interruption_leaves_no_lock(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        with monkeypatch.context() as failing:
            fails_at(failing, step, KeyboardInterrupt(), carried_out=step != "COMMIT")
            with pytest.raises(KeyboardInterrupt):
                store.push([NewJob(new_id(), "q", "1")])
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.rollback()
        (answer,) = store.push([NewJob(new_id(), "q", "1")])
        assert (ids(path), pushed(path)) == ([answer.id], 1)


class TestOthers:
    def test_a_lock_of_another_process_is_waited_for(
        self, store: SqliteStore, path: Path, taken: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.push([NewJob(new_id(), "q", "1")])
        before, dropped = store._own._connection, threading.Event()
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")

            def release() -> None:
                assert dropped.wait(60)
                other.execute("COMMIT")

            with in_threads([release]):
                starts = store._parts.pushes
                monkeypatch.setattr(starts, "push", telling(dropped, starts.push))
                store.push([NewJob(new_id(), "q", "1")])
        assert taken == [True, False]
        assert store._own._connection is before, "a busy file costs no new connection"
        assert len(ids(path)) == 2

    def test_a_process_that_has_waited_long_goes_first(
        self, store: SqliteStore, path: Path, taken: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(WriterQueue, "goes_first", lambda _self: True)
        monkeypatch.setattr("stanchion.stores.sqlite.dialect.GIVE_WAY_SECONDS", 0.0)
        store.push([NewJob(new_id(), "q", "1")])
        assert taken == [False]
        assert len(ids(path)) == 1

    def test_writers_are_let_go_first_in_turn(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another thread of this process may have asked to go first, by the same open file."""
        had_turn: list[bool] = []

        def noted(_self: WriterQueue) -> bool:
            had_turn.append(store._write_lock._holder == threading.get_ident())
            return False

        monkeypatch.setattr(WriterQueue, "goes_first", noted)
        store.push([NewJob(new_id(), "q", "1")])
        assert had_turn == [True]

    @pytest.mark.parametrize("step", ["BEGIN IMMEDIATE", "INSERT INTO stanchion_jobs", "COMMIT"])
    def test_a_signal_handler_closes_the_store(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        runs_at(monkeypatch, step, store.close)
        store.push([NewJob(new_id(), "q", "1")])
        assert (len(ids(path)), pushed(path)) == (1, 1)

    def test_threads_take_turns(self, store: SqliteStore, path: Path, taken: list[bool]) -> None:
        def push() -> None:
            for _ in range(50):
                store.push([NewJob(new_id(), "q", "1")])

        with in_threads([push] * 4):
            pass
        assert taken == [True] * 200
        assert (len(ids(path)), pushed(path)) == (200, 200)

    def test_a_transaction_of_another_thread_is_waited_for(
        self, store: SqliteStore, path: Path, taken: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waiting, within, opened = threading.Event(), WriteLock.within, OwnConnection.opened
        entered: list[bool] = []

        def noted(self: WriteLock, seconds: float) -> Any:
            waiting.set()
            return within(self, seconds)

        def entering(self: OwnConnection) -> Any:
            entered.append(in_transaction)
            return opened(self)

        in_transaction = True
        with store.transaction():
            monkeypatch.setattr(WriteLock, "within", noted)
            monkeypatch.setattr(OwnConnection, "opened", entering)
            pusher = threading.Thread(target=store.push, args=([NewJob(new_id(), "q", "1")],))
            pusher.start()
            assert waiting.wait(60)
            pusher.join(0.2)  # it could go on to the file only without its turn
            in_transaction = False
        pusher.join(60)
        assert (taken, entered) == ([True], [False])
        assert len(ids(path)) == 1

    def test_a_forked_child_never_uses_the_connection_of_its_parent(self, store: SqliteStore, path: Path) -> None:
        store.push([NewJob(new_id(), "q", "1")])
        mine = store._own._connection
        child = os.fork()
        if child == 0:
            try:
                assert store._own._connection is None
                store.push([NewJob(new_id(), "q", "1")])
                assert store._own._connection is not mine
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.push([NewJob(new_id(), "q", "1")])
        assert len(ids(path)) == 3
        assert rows(path, "PRAGMA integrity_check") == [("ok",)]

    def test_waiters_of_this_process_are_woken(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        woken: list[set[str]] = []
        monkeypatch.setattr(type(store.dialect), "announce", lambda _self, queues, *_: woken.append(set(queues)))
        store.push([NewJob(new_id(), "a", "1"), NewJob(new_id(), "b", "1")])
        assert woken == [{"a", "b"}]

    @pytest.mark.parametrize("synchronous", ["full", "normal", "off", "extra"])
    def test_commits_wait_for_the_disk_as_the_url_says(self, path: Path, synchronous: str) -> None:
        with closing(open_store(f"sqlite:///{path}?synchronous={synchronous}")) as store:
            store.check()
            store.push([NewJob(new_id(), "q", "1")])
            with store.database.connection() as general:
                for pragma in ("synchronous", "journal_mode", "journal_size_limit"):
                    mine = store._own.opened().execute(f"PRAGMA {pragma}").fetchone()
                    assert mine == tuple(general.exec_driver_sql(f"PRAGMA {pragma}").one())


def test_settings_that_another_process_changes(path: Path) -> None:
    with closing(Stanchion(f"sqlite:///{path}")) as app, closing(Stanchion(f"sqlite:///{path}")) as other:
        app.queue("q").push(1)
        other.queue("q").configure(lanes=4, timeout=3)
        context_of(app).settings.forget()  # as a second later
        app.queue("q").push(2, tenant="acme")
        assert rows(path, "SELECT lane >= 0 FROM stanchion_jobs ORDER BY id") == [(0,), (1,)]


def fails_at(patch: pytest.MonkeyPatch, step: str, error: BaseException, *, carried_out: bool) -> None:
    """Let a statement of the plain way fail, before or after it is carried out."""

    def fail() -> None:
        raise error

    runs_at(patch, step, fail, after=carried_out)


def runs_at(patch: pytest.MonkeyPatch, step: str, does: Callable[[], None], *, after: bool = False) -> None:
    """Call `does` before or after a statement of the plain way."""
    opened = OwnConnection.opened

    class Noticing:
        def __init__(self, real: sqlite3.Connection) -> None:
            self._real = real

        def execute(self, sql: str, *given: Any) -> Any:
            return self._run(self._real.execute, sql, *given)

        def executemany(self, sql: str, *given: Any) -> Any:
            return self._run(self._real.executemany, sql, *given)

        def _run(self, run: Any, sql: str, *given: Any) -> Any:
            here = sql.startswith(step)
            if here and not after:
                does()
            done = run(sql, *given)
            if here and after:
                does()
            return done

    patch.setattr(OwnConnection, "opened", lambda self: Noticing(opened(self)))


def telling(called: threading.Event, push: Any) -> Any:
    """Return a push that first says that it was called."""

    def told(*given: Any, **named: Any) -> Any:
        called.set()
        return push(*given, **named)

    return told
