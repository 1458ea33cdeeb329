"""An app on each SQL store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.stores.registry import open_store


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty, set-up store."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("pg_store_url"))
    sqlite = request.param == "sqlite"
    url: str = f"sqlite:///{tmp_path / 'jobs.db'}" if sqlite else request.getfixturevalue("mariadb_url")
    store = open_store(url)
    store.setup()
    store.close()
    return url


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    app = Stanchion(url)
    yield app
    app.close()


@pytest.fixture
def pg_app(pg_store_url: str) -> Iterator[Stanchion]:
    app = Stanchion(pg_store_url)
    yield app
    app.close()
