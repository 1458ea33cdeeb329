"""Wake-up across processes on a SQLite file."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.stores.sqlite.file import StoreFile


def test_a_commit_right_after_the_call_wakes_the_listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late its thread gets to look at the file for the first time."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    opened = StoreFile.open

    def late(self: StoreFile, mode: str = "rw", **options: Any) -> sqlite3.Connection:
        time.sleep(0.2)
        return opened(self, mode, **options)

    with closing(Stanchion(url)) as app, closing(Stanchion(url)) as other:
        other.queue("orders").push("make the queue")
        monkeypatch.setattr(StoreFile, "open", late)
        listener = app.store.listen(["orders"])
        try:
            other.queue("orders").push(1)
            assert listener.wait(60)
        finally:
            listener.close()
