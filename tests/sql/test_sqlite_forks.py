"""Forks of a process that has a SQLite file open. The locks are the parent's: the child must not rely on them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.sqlite import general
from stanchion.stores.sqlite.processes import fork_gate
from stanchion.stores.sqlite.processes.fork_gate import ForkGate
from stanchion.stores.sqlite.store import SqliteStore, open_store
from stanchion_conformance.harness import in_threads


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.check()
        yield store


def push(store: SqliteStore, payload: object) -> None:
    store.push([NewJob(new_id(), "q", str(payload))])


def payloads(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT payload FROM stanchion_jobs ORDER BY payload")]


def forked(work: Callable[[], object]) -> int:
    """Run `work` in a child; return the id of its process."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def succeeded(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("way", ["plain", "general", "both"])
def test_the_parent_closes_first(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Its last close would delete the log that the child goes on to write."""
    if way == "general":
        monkeypatch.setattr(store._plain, "takes", lambda _jobs: False)
    push(store, 1)
    if way == "both":
        store.semaphores()
    (told, tell), (closed, close) = os.pipe(), os.pipe()

    def work() -> None:
        push(store, 2)
        os.write(tell, b"1")
        os.read(closed, 1)
        push(store, 3)

    child = forked(work)
    os.close(tell)  # or the read would wait for a child that has failed
    os.read(told, 1)
    store.close()
    os.write(close, b"1")
    assert succeeded(child)
    for end in (told, closed, close):
        os.close(end)
    assert payloads(path) == ["1", "2", "3"]


def test_who_waits_in_the_parent(store: SqliteStore, path: Path) -> None:
    listener = store.listen(["q"])
    with closing(open_store(f"sqlite:///{path}")) as other:
        while listener.wait(0.1):
            pass
        in_parent = ForkGate.after_fork

        def pushed_meanwhile(self: ForkGate) -> None:
            if self is store._file.gate:
                push(other, 0)
            in_parent(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ForkGate, "after_fork", pushed_meanwhile)
            woken, wake = os.pipe()

            def pushed_later() -> None:
                os.read(woken, 1)
                push(store, 1)

            child = forked(pushed_later)
        assert listener.wait(60)  # by the push during the fork, as the child has made none
        os.write(wake, b"1")
        assert succeeded(child)
        os.close(woken)
        os.close(wake)
    listener.close()
    assert payloads(path) == ["0", "1"]


@pytest.mark.parametrize("mine", [True, False])
def test_a_connection_in_use(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, mine: bool) -> None:
    monkeypatch.setattr(fork_gate, "_WAIT_SECONDS", 0.0)
    entered, leave = threading.Event(), threading.Event()

    def refused() -> None:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"forked while a connection to .* was in use"):
                push(store, 2)

    def hold() -> None:
        with store.transaction() as tx:
            store.push([NewJob(new_id(), "q", "1")], tx)
            entered.set()
            if mine:
                assert succeeded(forked(refused))
            else:
                assert leave.wait(60)

    if mine:
        hold()
    else:
        with in_threads([hold]):
            assert entered.wait(60)
            child = forked(refused)
            leave.set()
        assert succeeded(child)
    push(store, 3)
    assert payloads(path) == ["1", "3"]
    assert succeeded(forked(lambda: push(store, 4)))


def test_a_load_in_another_thread(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks of an import in progress would never be free in the child."""
    loading, forking = threading.Event(), threading.Event()
    made, before = general.general, ForkGate.before_fork

    def slow(*given: Any) -> Any:
        loading.set()
        assert forking.wait(60)
        return made(*given)

    def told(self: ForkGate) -> None:
        forking.set()
        before(self)

    def work() -> None:
        assert store._loaded
        push(store, 1)

    monkeypatch.setattr(general, "general", slow)
    monkeypatch.setattr(ForkGate, "before_fork", told)
    with in_threads([lambda: store.semaphores()]):
        assert loading.wait(60)
        assert succeeded(forked(work))
    assert payloads(path) == ["1"]


def test_another_thread_opens_no_connection_meanwhile(store: SqliteStore, path: Path) -> None:
    opening = threading.Event()

    def work() -> None:
        opening.set()
        push(store, 1)

    store._file.gate.before_fork()
    try:
        with store._file.gate.lock:
            pusher = threading.Thread(target=work)
            pusher.start()
            assert opening.wait(60)
        pusher.join(0.2)  # it could go on only without the gate
        assert len(store._file.gate._open) == 0
    finally:
        store._file.gate.after_fork()
    pusher.join(60)
    assert payloads(path) == ["1"]


LOGS_IN_A_TRANSACTION = """
import os, sys, threading
import stanchion.core.concurrency.forks  # before anything else that imports logging
from stanchion.core.ids import new_id
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.sqlite.store import open_store
import logging

store = open_store(sys.argv[1])
store.check()
entered, forking = threading.Event(), threading.Event()

def hold():
    with store.transaction():
        entered.set()
        forking.wait(60)
        forking.clear()
        forking.wait(0.3)  # the thread that forks takes its next locks
        logging.getLogger("of a program")  # takes the lock of logging

thread = threading.Thread(target=hold)
thread.start()
entered.wait(60)
os.register_at_fork(before=forking.set)  # runs first
child = os.fork()
if child == 0:
    store.push([NewJob(new_id(), "q", "1")])
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_transaction_that_logs_ends_before_a_fork(path: Path) -> None:
    """A fork takes the lock of logging, too: only after the threads that it waits for."""
    done = subprocess.run([sys.executable, "-c", LOGS_IN_A_TRANSACTION, f"sqlite:///{path}"], check=False, timeout=300)
    assert done.returncode == 0
    assert payloads(path) == ["1"]
