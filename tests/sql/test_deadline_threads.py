"""The deadlines of calls of all databases of a process: one thread watches them."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.deadlines import DEADLINES, Deadlines


def test_a_call_within_a_call_takes_no_deadline_away() -> None:
    (ours, theirs), (inner, _) = socket.socketpair(), socket.socketpair()
    deadlines, cut = Deadlines(), list[int]()
    ours.settimeout(60)
    with deadlines.within(ours.fileno(), 0.5, cut):
        with deadlines.within(inner.fileno(), 60, []):
            pass
        assert ours.recv(1) == b""  # cut, as the peer says nothing
    assert cut == [ours.fileno()]
    theirs.close()


def test_many_databases_have_one_thread(pg_store_url: str) -> None:
    stores = [open_store(pg_store_url) for _ in range(5)]
    for store in stores:
        with closing(store):
            store.now()
    watching = [thread for thread in threading.enumerate() if thread.name == "stanchion-deadlines"]
    assert DEADLINES._thread in watching
    assert len(watching) <= 2  # the other one is of the test above, and ends when it is idle
