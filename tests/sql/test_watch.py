"""Wake-up across processes on a SQLite file."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.stores.sql import watch


def test_a_commit_right_after_the_call_wakes_the_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late its thread gets to look at the file for the first time."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    connect = sqlite3.connect

    class Late:
        Connection, Error = sqlite3.Connection, sqlite3.Error

        @staticmethod
        def connect(*args: Any, **options: Any) -> Any:
            time.sleep(0.2)
            return connect(*args, **options)

    with closing(Stanchion(url)) as app, closing(Stanchion(url)) as other:
        other.queue("orders").push("make the queue")
        monkeypatch.setattr(watch, "sqlite3", Late)
        listener = app.store.listen(["orders"])
        try:
            other.queue("orders").push(1)
            assert listener.wait(10)
        finally:
            listener.close()
