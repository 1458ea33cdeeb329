"""Servers for the tests that need them, and the rule for those that are not there."""

import gc
import os
import signal
import sys
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import typer.main
import typer.testing

from stanchion.stores.records import calls
from stanchion.stores.registry import open_store
from tests import tiers
from tests.servers.mariadb import MariaDBServer
from tests.servers.mongo import MongoServer, OwnMongoServer, shared_mongo_server
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.process import ServerMissing
from tests.servers.proxy import TcpProxy
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster

# The tests start hundreds of processes; where compiled modules may not be kept, each compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Typer makes all commands anew for each that is run, which takes four times as long as most commands.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]

# A shell that runs the tests in its background has them ignore Ctrl-C, and all processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls to a store that does not answer end soon."""
    monkeypatch.setattr(calls, "CALL_SECONDS", 2.0)


IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")


class NewDatabase(Protocol):
    """Creates a database, a copy of the template, and returns its address."""

    def __call__(self, template: str = "template1") -> str: ...


SLOW = (
    *("tests/mongo/", "tests/redis/", "tests/servers/"),
    *("tests/cli/test_transfer.py", "tests/spark/test_", "tests/demo/", "tests/docs/"),
    *("tests/spark/archive/test_deaths.py", "tests/protocol/", "tests/worker/test_scheduler.py"),
    *("tests/cli/test_copy.py", "tests/spark/streams/test_data_source.py"),
    "tests/django/test_shop.py",
    *("tests/worker/test_output.py", "tests/cli/test_process.py", "tests/manager/streams/test_standstill.py"),
    *("tests/sql/test_pooler.py", "tests/web/test_mounted.py", "tests/web/test_markup.py", "tests/web/test_stores.py"),
    *(f"tests/conformance/test_{store}" for store in ("grpc", "mariadb", "mongo", "partitioned", "postgres", "redis")),
    *("tests/conformance/test_sharded.py", "tests/conformance/test_sqlite.py"),
)
"""What takes long: left out of `make check`, as are all tests on servers."""

SERVERS = frozenset(
    (
        *("postgres_server", "mariadb_server", "redis_server", "redis_cluster", "mongo_server", "pgbouncer"),
        *("own_postgres_server", "own_mariadb_server", "own_redis_server", "own_mongo_server"),
        *("pg_url", "pg_store_url", "mariadb_url", "redis_url", "mongo_url"),
        *("postgresql", "mariadb", "mysql", "redis", "mongodb", "chromium"),
    )
)
"""Fixtures and parameters of tests that need a server."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't collect what is slow as a whole where slow tests are left out, as that would take long, too."""
    if "not slow" not in config.getoption("markexpr"):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return f"{name}/".startswith(SLOW) or name.startswith(SLOW) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect without the garbage collector, and hide from it what is collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is there, and what names a server among its fixtures or its parameters; and as nightly."""
    for item in items:
        call = getattr(item, "callspec", None)
        named = {*getattr(item, "fixturenames", ()), *map(str, call.params.values() if call else ())}
        if item.nodeid.startswith(SLOW) or item.get_closest_marker("nightly") or not SERVERS.isdisjoint(_words(named)):
            item.add_marker("slow")
    tiers.assign(items)


def _words(names: set[str]) -> set[str]:
    """Return the names, and the first word of each: a parameter may say more than the kind of its server."""
    return names | {name.partition(",")[0] for name in names}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out the longest files first."""
    from tests.scheduling import LongestFirst

    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL server that all tests of this process share; no test may stop it."""
    with PostgresServer(fsync=False, settings={"max_prepared_transactions": "20"}) as server:
        yield server


@pytest.fixture
def own_postgres_server() -> Iterator[PostgresServer]:
    """A durable PostgreSQL server for one test, which may stop and kill it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pool in transaction mode in front of `postgres_server`."""
    with PgBouncer(postgres_server) as pool:
        yield pool


@pytest.fixture
def pg_proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    """A proxy in front of `postgres_server`, with a network that fails on demand."""
    with TcpProxy("127.0.0.1", postgres_server.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def new_pg_database(postgres_server: PostgresServer) -> NewDatabase:
    """Creates databases that last as long as the server, such as templates."""

    def create(template: str = "template1") -> str:
        return postgres_server.create_database(f"test_{uuid.uuid4().hex}", template)

    return create


@pytest.fixture
def pg_url(postgres_server: PostgresServer, new_pg_database: NewDatabase) -> Iterator[str]:
    """The address of an empty database for one test."""
    url = new_pg_database()
    yield url
    postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(scope="session")
def pg_template(new_pg_database: NewDatabase) -> str:
    """The name of a database with the schema of a store: to copy it costs a fraction of making one."""
    url = new_pg_database()
    with closing(open_store(url)) as store:
        store.setup()
    return url.rpartition("/")[2]


@pytest.fixture
def pg_store_url(postgres_server: PostgresServer, new_pg_database: NewDatabase, pg_template: str) -> Iterator[str]:
    """The address of a database for one test, which has the schema of a store."""
    url = new_pg_database(pg_template)
    yield url
    postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    """The MariaDB server that all tests of this process share; no test may stop it."""
    with MariaDBServer(durable=False) as server:
        yield server


@pytest.fixture
def own_mariadb_server() -> Iterator[MariaDBServer]:
    """A durable MariaDB server for one test, which may stop and kill it."""
    with MariaDBServer() as server:
        yield server


@pytest.fixture
def mariadb_url(mariadb_server: MariaDBServer) -> Iterator[str]:
    """The address of an empty database for one test."""
    name = f"test_{uuid.uuid4().hex}"
    yield mariadb_server.create_database(name)
    mariadb_server.drop_database(name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The Redis server that all tests of this process share; it keeps nothing, and no test may stop it."""
    with RedisServer(settings={"appendonly": "no"}) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> Iterator[str]:
    """The address of an empty database for one test."""
    with redis_server.database() as url:
        yield url


@pytest.fixture
def own_redis_server() -> Iterator[RedisServer]:
    """A server with an append-only file for one test, which may stop, kill and configure it."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """The cluster that all tests of this process share; who changes it puts it right again."""
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[MongoServer]:
    """The MongoDB server that all tests of this process share; no test may stop it."""
    with shared_mongo_server() as server:
        yield server


@pytest.fixture
def own_mongo_server() -> Iterator[OwnMongoServer]:
    """A durable MongoDB server for one test, which may stop and kill it."""
    with OwnMongoServer() as server:
        yield server


@pytest.fixture
def mongo_url(mongo_server: MongoServer) -> Iterator[str]:
    """The address of an empty database for one test."""
    name = f"test_{uuid.uuid4().hex}"
    yield mongo_server.url(name)
    mongo_server.drop_database(name)


@contextmanager
def skipped_without_server() -> Iterator[None]:
    try:
        yield
    except ServerMissing as missing:
        if IN_CI:
            raise
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with skipped_without_server():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with skipped_without_server():
        return (yield)


def skips(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get("skipped", [])) if reporter else 0


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a run that skipped anything has failed."""
    if IN_CI and skips(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if IN_CI and (count := skips(config)):
        terminalreporter.write_line(f"{count} skipped: not allowed with CI set", red=True)
