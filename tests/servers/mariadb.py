"""A private MariaDB server."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pymysql

from tests.servers.process import ServerMissing, ServerProcess, find_program, free_port

PASSWORD = "secret"
PROGRAMS = ("mariadbd", "mariadb-install-db")


def find_programs() -> list[Path]:
    """Return where `mariadbd` and `mariadb-install-db` are."""
    chosen = [Path(folder) for folder in [os.environ.get("STANCHION_TEST_MARIADB_BIN")] if folder]
    found = [find_program(name, *chosen, Path("/usr/sbin"), Path("/usr/local/sbin")) for name in PROGRAMS]
    programs = [program for program in found if program is not None]
    if len(programs) < len(PROGRAMS):
        raise ServerMissing(
            "no MariaDB server: install it (Debian: apt-get install mariadb-server), "
            "or set STANCHION_TEST_MARIADB_BIN to the directory of mariadbd and mariadb-install-db"
        )
    return programs


class MariaDBServer:
    """A server with databases of its own, on a free loopback port.

    `user` has no rights but those on the databases that it is given.
    """

    def __init__(
        self,
        *,
        durable: bool = True,
        user: str = "stanchion",
        password: str = PASSWORD,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Make the data directory; `settings` are options of mariadbd."""
        self._server, self._install = find_programs()
        self.port = free_port()
        self.user, self.password = user, password
        self._process = ServerProcess("mariadb", end_signal=signal.SIGKILL)
        self._data = self._process.directory / "data"
        # A starting server deletes the temporary tables that it finds, which in a shared folder are those of others.
        self._tmp = self._process.folder("tmp")
        self._settings = {
            "datadir": str(self._data),
            "tmpdir": str(self._tmp),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self.socket),
            "pid-file": str(self._process.directory / "pid"),
            "skip-name-resolve": "1",
            "max-connections": "300",
            "max-connect-errors": "1000000",
            "innodb-buffer-pool-size": "256M",
            "innodb-log-file-size": "96M",
            "innodb-flush-log-at-trx-commit": "1" if durable else "0",
            "innodb-doublewrite": "1" if durable else "0",
            **(settings or {}),
        }
        try:
            self._process.run(
                [
                    self._install,
                    "--no-defaults",
                    f"--datadir={self._data}",
                    f"--tmpdir={self._tmp}",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                    "--innodb-log-file-size=10M",
                ]
            )
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        self.start()
        self.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}'")
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def socket(self) -> Path:
        """The Unix socket that the server listens on too."""
        return self._process.directory / "socket"

    @property
    def pid(self) -> int | None:
        """The process id of the server, or None when it doesn't run."""
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        self._process.start(
            [self._server, "--no-defaults", *options],
            ready=self._is_ready,
            retry_on="Unable to lock",  # a killed server takes a moment to end
        )

    def stop(self) -> None:
        """Stop the server as its administrator does."""
        self._process.signal(signal.SIGTERM)

    def restart(self) -> None:
        """Stop the server and start it on the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill the server; it recovers at the next start."""
        self._process.signal(signal.SIGKILL)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Stop the server in its tracks: connections stay, and nothing answers."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its data."""
        self._process.close()

    def url(self, database: str) -> str:
        """Return the address of a database. Else the driver prepares for TLS, which the server does not offer."""
        return f"mysql://{self.user}:{self.password}@127.0.0.1:{self.port}/{database}?ssl_disabled=true"

    def create_database(self, name: str) -> str:
        """Create a database that `user` may do anything in, and return its address."""
        self.execute(f"CREATE DATABASE `{name}`", f"GRANT ALL ON `{name}`.* TO '{self.user}'@'%'")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, if it exists."""
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def connect_as_root(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        """Return a connection that may do everything."""
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, ssl_disabled=True)

    def execute(self, *statements: str) -> None:
        """Run statements as root, each for itself."""
        with self.connect_as_root() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _is_ready(self) -> bool:
        try:
            self.connect_as_root().close()
        except pymysql.err.OperationalError:
            return False
        return True
