"""Wake-up across processes on a SQLite file."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.stores.records.outcomes import Move
from stanchion.stores.sqlite.processes.file import StoreFile
from stanchion.stores.sqlite.processes.wakeup import FileWatch
from stanchion_conformance.harness import claim


def test_a_commit_right_after_the_call_wakes_the_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late its thread gets to look at the file for the first time."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    opened = StoreFile.open

    def late(self: StoreFile, **options: Any) -> sqlite3.Connection:
        time.sleep(0.2)
        return opened(self, **options)

    with closing(Stanchion(url)) as app, closing(Stanchion(url)) as other:
        other.queue("orders").push("make the queue")
        monkeypatch.setattr(StoreFile, "open", late)
        listener = app.store.listen(["orders"])
        try:
            other.queue("orders").push(1)
            assert listener.wait(60)
        finally:
            listener.close()


def test_moves_by_one_statement_wake_their_target_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: other processes notice by the counter of the file, as this one would a little later."""
    announced: set[str] = set()
    with closing(Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}")) as app:
        app.queue("orders").push_many([1, 2])
        rows = claim(app.store, 2)
        monkeypatch.setattr(FileWatch, "announce", lambda _watch, queues, _finished=(): announced.update(queues))
        app.store.settle([Move(rows[0].lease, "next"), Move(rows[1].lease, "later", delay=60)])
        assert announced == {"next"}
        app.queue("bounded", max_running=5).push(1)
        (row,) = claim(app.store, 1, queue="bounded")
        announced.clear()
        app.store.settle([Move(row.lease, "next")])
        assert announced == {"bounded", "next"}
