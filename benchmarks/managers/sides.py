"""The two sides of each measurement: clients of the database, and clients of managers in front of it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil
import psycopg
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion


class Work(NamedTuple):
    """What a server and the managers have done: seconds of processor time, statements or transactions, bytes of log."""

    database: float
    managers: float
    statements: float
    log: float

    def since(self, before: Work) -> Work:
        """Return what was done since then."""
        return Work(*(now - then for now, then in zip(self, before, strict=True)))


class Server(NamedTuple):
    """A running server: what makes an empty database, its process, and what counts its statements and bytes of log."""

    kind: str
    empty: Callable[[], str]
    process: int
    counts: Callable[[], tuple[float, float]]


class Side(NamedTuple):
    """Where clients connect, and the managers behind it, if any."""

    name: str
    url: str
    database_url: str
    server: Server
    managers: list[subprocess.Popen[str]]

    def work(self) -> Work:
        """Return what was done so far."""
        managers = sum(processor_time(one.pid) for one in self.managers if one.poll() is None)
        return Work(processor_time(self.server.process), managers, *self.server.counts())


@contextmanager
def postgresql() -> Iterator[Server]:
    """PostgreSQL, by its transactions and its write-ahead log."""

    def counts() -> tuple[float, float]:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            row = connection.execute(
                "SELECT (SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database), "
                "pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
            ).fetchone()
        assert row is not None
        return float(row[0]), float(row[1])

    with PostgresServer() as server:
        yield Server("postgresql", lambda: server.create_database(f"d{uuid.uuid4().hex}"), server.pid or 0, counts)


@contextmanager
def mariadb() -> Iterator[Server]:
    """MariaDB, by its statements and its redo log."""

    def counts() -> tuple[float, float]:
        with server.connect_as_root() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Innodb_os_log_written')")
            found = {name.lower(): float(value) for name, value in cursor.fetchall()}
        return found["questions"], found["innodb_os_log_written"]

    with MariaDBServer() as server:
        yield Server("mariadb", lambda: server.create_database(f"d{uuid.uuid4().hex}"), server.pid or 0, counts)


SERVERS = {"postgresql": postgresql, "mariadb": mariadb}


@contextmanager
def side(server: Server, managers: int, lanes: int = 1) -> Iterator[Side]:
    """Set up an empty database, with so many managers in front of it; 0: clients connect to the database."""
    url = server.empty()
    with closing(Stanchion(url)) as app:
        app.setup()
        app.queue("measured").configure(lanes=lanes)
    with ExitStack() as stack:
        started = [stack.enter_context(_running(url)) for _ in range(managers)]
        addresses = ",".join(_addresses(started)).replace(",grpc://", ",")
        name, client = (f"{managers} managers", addresses) if managers else ("direct", url)
        yield Side(name, client, url, server, started)


@contextmanager
def sharded(server: Server, databases: int) -> Iterator[Side]:
    """Set up so many databases with the four partitions of a queue, and a manager in front of each."""
    names = [f"shard{number}" for number in range(databases)]
    urls = [server.empty() for _ in names]
    each = 4 // databases
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def mapped(file: str, addresses: list[str]) -> str:
            lines = [f'default = "{names[0]}"', "[shards]"]
            lines += [f'{name} = "{address}"' for name, address in zip(names, addresses, strict=True)]
            lines += ["[partitions.measured]"]
            lines += [f'{name} = "{n * each}-{n * each + each - 1}"' for n, name in enumerate(names) if n]
            path = Path(folder, file)
            path.write_text("\n".join(lines))
            return f"shards:///{path}"

        direct = mapped("direct.toml", urls)
        with closing(Stanchion(direct)) as app:
            app.queue("measured", partitions=4)
            app.setup()
        started = [stack.enter_context(_running(url)) for url in urls]
        yield Side(f"{databases} databases", mapped("managed.toml", _addresses(started)), direct, server, started)


def _addresses(managers: list[subprocess.Popen[str]]) -> list[str]:
    return [f"grpc://{json.loads(one.stdout.readline())['listening']}" for one in managers if one.stdout]


@contextmanager
def _running(url: str) -> Iterator[subprocess.Popen[str]]:
    manager = _manager(url)
    try:
        yield manager
    finally:
        manager.terminate()
        manager.wait()


def _manager(url: str) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).with_name("stanchion"))
    command = [program, "manager", "--url", url, "--listen", "127.0.0.1:0", "--json", "--log-level", "error"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def programs(count: int, *arguments: object) -> Iterator[list[subprocess.Popen[str]]]:
    """Run programs of their own; they end with the measurement."""
    command = [sys.executable, "-m", "benchmarks.managers.program", *map(str, arguments)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        yield running
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait()


def said(program: subprocess.Popen[str]) -> Any:
    """Return the next value that a program prints."""
    assert program.stdout is not None
    return json.loads(program.stdout.readline())


def processor_time(pid: int) -> float:
    """Return the processor time of a process with its children, in seconds."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    total = float(own.user + own.system + own.children_user + own.children_system)
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used = child.cpu_times()
            total += used.user + used.system
    return total
