"""Signs of work, and the calls of a manager that give it none."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager

import psycopg

from stanchion.manager.window.watcher import Watcher
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import new_job
from tests.worker.conftest import until

QUEUES = ("unheard", "other-thread", "own", "other-process")


@contextmanager
def signs(store: Store) -> Iterator[tuple[Watcher, set[str]]]:
    """Watch; yield the queues that had signs."""
    found: set[str] = set()
    begun = threading.Event()

    def signed(queues: Collection[str] | None) -> None:
        begun.set()
        found.update(queues or ())

    watcher = Watcher(store, signed)
    watcher.watch(QUEUES)
    assert begun.wait(60)
    try:
        yield watcher, found
    finally:
        watcher.close()


def push(store: Store, queue: str) -> None:
    store.push([new_job(queue=queue)])


def test_only_what_the_call_itself_stores_gives_no_sign() -> None:
    store = MemoryStore()

    def call() -> None:
        push(store, "unheard")
        other = threading.Thread(target=push, args=(store, "other-thread"))
        other.start()
        other.join()

    with signs(store) as (watcher, found):
        watcher.unheard(call)
        push(store, "own")
        until(lambda: found >= {"other-thread", "own"})
        assert "unheard" not in found


def test_it_does_not_come_back_by_the_database(pg_store_url: str) -> None:
    with closing(open_store(pg_store_url)) as store, closing(open_store(pg_store_url)) as other:
        store.setup()
        with signs(store) as (watcher, found), psycopg.connect(pg_store_url, autocommit=True) as listening:
            listening.execute("LISTEN stanchion")
            watcher.unheard(lambda: push(store, "unheard"))
            # Probes of listeners are among the signals.
            assert any(one.payload == "unheard" for one in listening.notifies(timeout=60))
            push(other, "other-process")  # its signal comes after the other one
            until(lambda: "other-process" in found)
            assert "unheard" not in found
