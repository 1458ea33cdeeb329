"""A scene on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scene import Scene
from tests.servers.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """An empty store, on each database."""
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("pg_url")
    scene = Scene(tmp_path, url)
    yield scene
    scene.close()


@pytest.fixture
def sqlite_scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty SQLite file."""
    scene = Scene(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    yield scene
    scene.close()


@pytest.fixture
def pg_scene(tmp_path: Path, pg_url: str) -> Iterator[Scene]:
    """An empty database on the server that all tests share."""
    scene = Scene(tmp_path, pg_url)
    yield scene
    scene.close()


@pytest.fixture
def own_pg_scene(tmp_path: Path, own_postgres_server: PostgresServer) -> Iterator[Scene]:
    """An empty database on a server that the test may stop and kill."""
    scene = Scene(tmp_path, own_postgres_server.create_database("crash"))
    yield scene
    scene.close()
