"""A way to push without the package, on each database, and an app on the same database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from tests.plain_push.ways import MariaDBClient, Psql, RedisCli, Sqlite3, SqlWay, Way

SQL_WAYS: dict[str, type[SqlWay]] = {"sqlite": Sqlite3, "postgresql": Psql, "mariadb": MariaDBClient}
WAYS: dict[str, type[Way]] = {**SQL_WAYS, "redis": RedisCli}
URLS = {"postgresql": "pg_url", "mariadb": "mariadb_url", "redis": "redis_url"}


@pytest.fixture(params=WAYS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of database."""
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    return str(request.getfixturevalue(URLS[kind])) if kind in URLS else f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with its schema."""
    with closing(open_store(url)) as store:
        store.setup()
        yield store


@pytest.fixture
def app(store: Store) -> Stanchion:
    return Stanchion(store=store)


@pytest.fixture
def way(kind: str, url: str, store: Store) -> Way:  # noqa: ARG001 - the schema must be there
    return WAYS[kind](url)
