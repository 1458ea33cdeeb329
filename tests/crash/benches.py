"""Databases on servers that the tests harm, each in the ways of its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import psycopg
import pymysql

from tests.crash.scene import Scene
from tests.servers.mariadb import MariaDBServer
from tests.servers.mongo import OwnMongoServer
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer


class Server(Protocol):
    """What every server can do."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...


AnyServer = TypeVar("AnyServer", bound=Server)


class Bench(ABC, Generic[AnyServer]):
    """An empty database at `url`, on a server that is there to be harmed."""

    def __init__(self, folder: Path, server: AnyServer, url: str) -> None:
        self.server, self.url = server, url
        self.scene = Scene(folder, url)

    @property
    def port(self) -> int:
        """Where the server listens."""
        return urlsplit(self.url).port or 0

    def through(self, port: int) -> str:
        """Return the address of the database by way of another loopback port."""
        return self.url.replace(f":{self.port}/", f":{port}/")

    def restarts(self) -> dict[str, Callable[[], None]]:
        """Return the ways in which the server ends and is there again."""
        return {"restart": self.server.restart, "crash": self._crash}

    def _crash(self) -> None:
        self.server.kill()
        self.server.start()

    @staticmethod
    @abstractmethod
    def new_database(server: AnyServer) -> str:
        """Make the one database of a server that is the test's own; return its address."""

    @abstractmethod
    def end_connections(self) -> int:
        """Have the server end all connections to the database; return how many that were."""

    def end_listeners(self) -> int:
        """Have the server end the connections on which workers wait for signals, or all; return how many."""
        return self.end_connections()


class PostgresBench(Bench[PostgresServer]):
    """A database of PostgreSQL."""

    @staticmethod
    def new_database(server: PostgresServer) -> str:
        return server.create_database("crash")

    def restarts(self) -> dict[str, Callable[[], None]]:
        return {**super().restarts(), "immediate": lambda: self.server.restart("immediate")}

    def end_connections(self, query: str = "") -> int:
        with psycopg.connect(self.server.url(), autocommit=True) as admin:
            ended = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND query LIKE %s",
                [urlsplit(self.url).path.strip("/"), f"{query}%"],
            )
            return len(ended.fetchall())

    def end_listeners(self) -> int:
        return self.end_connections("LISTEN")


class MariaDBBench(Bench[MariaDBServer]):
    """A database of MariaDB."""

    @staticmethod
    def new_database(server: MariaDBServer) -> str:
        return server.create_database("crash")

    def end_connections(self) -> int:
        with self.server.connect_as_root() as admin, admin.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s", [urlsplit(self.url).path.strip("/")]
            )
            found = cursor.fetchall()
            for connection in found:
                with suppress(pymysql.OperationalError):  # it has ended by itself
                    cursor.execute("KILL %s", connection)
        return len(found)


class RedisBench(Bench[RedisServer]):
    """A numbered database of Redis."""

    @staticmethod
    def new_database(server: RedisServer) -> str:
        server.configure(appendfsync="always")  # the default may lose the last second, by design
        return server.url()

    def end_connections(self, command: str = "") -> int:
        with self.server.client() as admin:
            here = {"db": urlsplit(self.url).path.strip("/"), "name": "stanchion"}
            found: list[dict[str, Any]] = [
                one for one in admin.client_list() if here.items() <= one.items() and one["cmd"].startswith(command)
            ]
            return sum(int(admin.client_kill_filter(_id=one["id"])) for one in found)

    def end_listeners(self) -> int:
        return self.end_connections("xread")


class MongoBench(Bench[OwnMongoServer]):
    """A database of MongoDB; its server ends connections by dying itself, which leaves the data alone."""

    @staticmethod
    def new_database(server: OwnMongoServer) -> str:
        return server.url("crash")

    def through(self, port: int) -> str:
        return f"{super().through(port)}?directConnection=true"

    def restarts(self) -> dict[str, Callable[[], None]]:
        return {**super().restarts(), "gateway": self._restart_gateway}

    def end_connections(self) -> int:
        self._restart_gateway()
        return 2

    def _restart_gateway(self) -> None:
        self.server.kill_gateway()
        self.server.start_gateway()
