"""A scene on each database, and a bench on each server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.crash.benches import Bench, MariaDBBench, MongoBench, PostgresBench, RedisBench
from tests.crash.scene import Scene
from tests.servers.proxy import TcpProxy

URLS = {"postgresql": "pg_url", "mariadb": "mariadb_url", "redis": "redis_url", "mongodb": "mongo_url"}
SHARED: dict[str, tuple[type[Bench[Any]], str, str]] = {
    "postgresql": (PostgresBench, "postgres_server", "pg_url"),
    "mariadb": (MariaDBBench, "mariadb_server", "mariadb_url"),
    "redis": (RedisBench, "redis_server", "redis_url"),
}
OWN: dict[str, tuple[type[Bench[Any]], str]] = {
    "postgresql": (PostgresBench, "own_postgres_server"),
    "mariadb": (MariaDBBench, "own_mariadb_server"),
    "redis": (RedisBench, "own_redis_server"),
    "mongodb": (MongoBench, "own_mongo_server"),
}


@pytest.fixture(params=["sqlite", *URLS])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """An empty store, on each database."""
    sqlite = request.param == "sqlite"
    with closing(
        Scene(tmp_path, sqlite_url(tmp_path) if sqlite else request.getfixturevalue(URLS[request.param]))
    ) as scene:
        yield scene


@pytest.fixture
def sqlite_scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty SQLite file."""
    with closing(Scene(tmp_path, sqlite_url(tmp_path))) as scene:
        yield scene


@pytest.fixture
def pg_scene(tmp_path: Path, pg_url: str) -> Iterator[Scene]:
    """An empty database on the PostgreSQL server that all tests share."""
    with closing(Scene(tmp_path, pg_url)) as scene:
        yield scene


@pytest.fixture(params=OWN)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench[Any]]:
    """An empty database on each kind of server, whose connections the test may end."""
    if request.param in SHARED:
        kind, server, url = SHARED[request.param]
        bench = kind(tmp_path, request.getfixturevalue(server), request.getfixturevalue(url))
    else:
        bench = own(request, tmp_path)
    with closing(bench.scene):
        yield bench


@pytest.fixture(params=OWN)
def own_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench[Any]]:
    """An empty database on a server of each kind, durable, which the test may stop and kill."""
    bench = own(request, tmp_path)
    with closing(bench.scene):
        yield bench


def own(request: pytest.FixtureRequest, folder: Path) -> Bench[Any]:
    kind, fixture = OWN[request.param]
    server = request.getfixturevalue(fixture)
    return kind(folder, server, kind.new_database(server))


@pytest.fixture
def proxy(bench: Bench[Any]) -> Iterator[TcpProxy]:
    """A proxy in front of the bench's server, with a network that fails on demand."""
    with TcpProxy("127.0.0.1", bench.port) as proxy:
        yield proxy


@pytest.fixture
def url(bench: Bench[Any], proxy: TcpProxy) -> str:
    """The way to the bench's database through the proxy."""
    return bench.through(proxy.port)


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/jobs.db"
