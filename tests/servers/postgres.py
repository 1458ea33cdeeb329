"""A private PostgreSQL server."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg import sql

from tests.servers.process import ServerMissing, ServerProcess, find_program, free_port

StopMode = Literal["smart", "fast", "immediate"]

STOP_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


def find_binaries() -> Path:
    """Return the directory of `initdb` and `postgres`."""
    chosen = os.environ.get("STANCHION_TEST_PG_BIN")
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    initdb = Path(chosen, "initdb") if chosen else find_program("initdb", *packaged)
    if initdb is None or not initdb.exists():
        raise ServerMissing(
            "no PostgreSQL server: install it (Debian: apt-get install postgresql), "
            "or set STANCHION_TEST_PG_BIN to the directory of initdb and postgres"
        )
    return initdb.parent


class PostgresServer:
    """A cluster of its own, on a free loopback port."""

    def __init__(
        self,
        *,
        fsync: bool = True,
        user: str = "stanchion",
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        """Make the cluster; `settings` are added to those of postgresql.conf."""
        self.binaries = binaries or find_binaries()
        self.port = free_port()
        self.user = user
        self.password = password
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "fsync": "on" if fsync else "off",
            **(settings or {}),
        }
        self._process = ServerProcess("postgres", end_signal=signal.SIGQUIT)
        self._data = self._process.directory / "data"
        try:
            self._init_cluster()
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id of the postmaster, or None when it doesn't run."""
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        self._process.start(
            [self.binaries / "postgres", "-D", self._data, *options],
            ready=self._is_ready,
            # The sessions of a killed postmaster take a moment to end.
            retry_on="pre-existing shared memory block",
        )

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server; `smart` waits for its clients, `immediate` needs recovery at the next start."""
        self._process.signal(STOP_SIGNALS[mode])

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it on the same port."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill the postmaster; its sessions end by themselves."""
        self._process.signal(signal.SIGKILL)

    def close(self) -> None:
        """End the server and remove the cluster."""
        self._process.end()
        self._free_shared_memory()
        self._process.close()

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        credentials = self.user if self.password is None else f"{self.user}:{self.password}"
        return f"postgresql://{credentials}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create a database, a copy of the template, and return its address."""
        self._execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if it exists, with the sessions in it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _init_cluster(self) -> None:
        authentication = ["--auth=trust"]
        if self.password is not None:
            password_file = self._process.write("password", self.password)
            authentication = ["--auth=scram-sha-256", f"--pwfile={password_file}"]
        self._process.run(
            [
                self.binaries / "initdb",
                f"--pgdata={self._data}",
                f"--username={self.user}",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
                *authentication,
            ]
        )

    def _lock_file(self) -> list[str]:
        try:
            return (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _is_ready(self) -> bool:
        lock = self._lock_file()
        return len(lock) > 7 and lock[0] == str(self.pid) and lock[7].strip() == "ready"

    def _free_shared_memory(self) -> None:
        """Remove the segment that a killed postmaster leaves behind."""
        lock = self._lock_file()
        if len(lock) > 6:
            segment = lock[6].split()[1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)
