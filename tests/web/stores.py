"""A store of each kind for the page and its API: sqlite and a manager daily, the servers nightly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from tests.servers.manager import ManagerThread

URLS = {"postgresql": "pg_url", "mariadb": "mariadb_url", "redis": "redis_url", "mongodb": "mongo_url"}
"""Fixtures with the address of an empty store."""

KINDS = ["sqlite", "manager", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in URLS)]


@contextmanager
def store_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Store]:
    """Open an empty store; of "manager", one behind a manager, over SQLite."""
    url = request.getfixturevalue(URLS[kind]) if kind in URLS else f"sqlite:///{folder / 'jobs.db'}"
    with closing(open_store(url)) as store:
        store.setup()
        if kind != "manager":
            yield store
            return
        with ManagerThread(store) as manager, closing(open_store(manager.url)) as behind:
            yield behind
