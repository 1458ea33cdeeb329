"""An app on each SQL store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.stores.registry import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty, set-up store."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else request.getfixturevalue("pg_url")
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
def pg_app(pg_url: str) -> Iterator[Stanchion]:
    store = open_store(pg_url)
    store.setup()
    app = Stanchion(store=store)
    yield app
    app.close()
