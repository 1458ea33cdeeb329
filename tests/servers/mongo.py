"""A MongoDB server: DocumentDB behind a gateway, or the one that STANCHION_TEST_MONGODB names."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
from pymongo import MongoClient

from stanchion.stores.registry import open_store
from tests.servers.documentdb.context import Like
from tests.servers.postgres import PostgresServer, StopMode
from tests.servers.process import ServerMissing, ServerProcess, accepts_connections, free_port

REPOSITORY = Path(__file__).parents[2]
SETUP = Path(__file__).parent / "documentdb" / "setup.sh"
KINDS: tuple[Like, ...] = ("standalone", "replica-set", "mongos")

SETTINGS = {
    "shared_preload_libraries": "pg_cron, pg_documentdb_core, pg_documentdb, pg_documentdb_extended_rum",
    "documentdb.alternate_index_handler_name": "extended_rum",
    "cron.database_name": "postgres",
    "cron.log_run": "off",
    "cron.log_statement": "off",
    "max_connections": "500",
    "deadlock_timeout": "10ms",
}

EXTENSIONS = (
    "CREATE EXTENSION documentdb CASCADE",
    "CREATE EXTENSION documentdb_extended_rum",
    # The gateway builds indexes itself.
    "SELECT cron.unschedule(jobid) FROM cron.job WHERE command LIKE '%build_index%'",
)


def find_documentdb() -> Path:
    """Return the directory of DocumentDB's `initdb` and `postgres`."""
    where = subprocess.run([SETUP, "where"], capture_output=True, text=True, check=True).stdout.strip()
    found = sorted(Path(where).glob("usr/lib/postgresql/*/bin"))
    if not found:
        raise ServerMissing(
            f"no MongoDB server: set STANCHION_TEST_MONGODB to the URI of one, or run {SETUP.relative_to(REPOSITORY)}, "
            "which unpacks DocumentDB"
        )
    return found[-1]


class MongoServer:
    """A server that runs elsewhere, and is not ours to stop."""

    def __init__(self, address: str) -> None:
        """Use the server at this mongodb:// URI."""
        self._address = urlsplit(address)
        if self._address.username and "authSource=" not in self._address.query:
            source = f"authSource={self._address.path.strip('/') or 'admin'}"
            self._address = self._address._replace(query="&".join(filter(None, (self._address.query, source))))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def url(self, database: str = "test", like: Like | None = None) -> str:  # noqa: ARG002
        """Return the address of a database; what it is `like` only a server of our own can choose."""
        return self._address._replace(path=f"/{database}").geturl()

    @contextlib.contextmanager
    def database(self, like: Like | None = None) -> Iterator[str]:
        """Lend a database that has the schema of a store."""
        name = f"test_{uuid.uuid4().hex}"
        url = self.url(name, like)
        with contextlib.closing(open_store(url)) as store:
            store.setup()
        yield url
        self.drop_database(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if it exists."""
        client: MongoClient[dict[str, Any]]
        with MongoClient(self.url()) as client:
            client.drop_database(name)


class OwnMongoServer(MongoServer):
    """DocumentDB on free loopback ports, one for each kind of MongoDB server that it can pass for."""

    def __init__(self, *, fsync: bool = True) -> None:
        """Make the cluster."""
        self.postgres = PostgresServer(fsync=fsync, settings=SETTINGS, binaries=find_documentdb())
        self.ports = {kind: free_port() for kind in KINDS}
        self._gateway = ServerProcess("mongo-gateway", end_signal=signal.SIGKILL, leaves_root=False)
        self._made = False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the gateway, or None when it doesn't run."""
        return self._gateway.pid

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        self.postgres.start()
        if not self._made:
            self._install_extensions()
            self._made = True
        self.start_gateway()

    def start_gateway(self) -> None:
        """Start what speaks MongoDB's protocol."""
        self._gateway.start(
            [
                *("/usr/bin/env", f"PYTHONPATH={REPOSITORY}"),
                *(sys.executable, "-m", "tests.servers.documentdb", self.postgres.url()),
                *(f"{kind}={port}" for kind, port in self.ports.items()),
            ],
            ready=lambda: all(map(accepts_connections, self.ports.values())),
        )

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; clients lose their connections."""
        self._gateway.end()
        self.postgres.stop(mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it on the same ports."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill the server."""
        self._gateway.end()
        self.postgres.kill()

    def kill_gateway(self) -> None:
        """Kill what speaks MongoDB's protocol; the database runs on."""
        self._gateway.end()

    def close(self) -> None:
        """End the server and remove its data."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.postgres.close)
            stack.callback(self._gateway.close)

    def url(self, database: str = "test", like: Like | None = "replica-set") -> str:
        """Return the address of a database on a server that is `like` one of MongoDB's kinds."""
        return f"mongodb://127.0.0.1:{self.ports[like or 'replica-set']}/{database}"

    def _install_extensions(self) -> None:
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            for statement in EXTENSIONS:
                connection.execute(statement)


def shared_mongo_server() -> MongoServer:
    """Return the server that tests share, not yet started."""
    address = os.environ.get("STANCHION_TEST_MONGODB")
    return MongoServer(address) if address else OwnMongoServer(fsync=False)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt), OwnMongoServer(fsync=False) as own:
        print(*(own.url(like=kind) for kind in KINDS), sep="\n", flush=True)
        signal.pause()
