"""A private PgBouncer in front of a PostgreSQL server."""

import signal
from pathlib import Path
from typing import Self

from tests.servers.postgres import PostgresServer
from tests.servers.process import (
    ServerMissing,
    ServerProcess,
    accepts_connections,
    find_program,
    free_port,
)

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = {authentication}
auth_file = {users}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
"""


def find_pgbouncer() -> Path:
    """Return where the program is."""
    program = find_program("pgbouncer", Path("/usr/sbin"), Path("/usr/local/sbin"))
    if program is None:
        raise ServerMissing("no PgBouncer: install it (Debian: apt-get install pgbouncer)")
    return program


class PgBouncer:
    """A pool in transaction mode, for every database of the server, on a free loopback port."""

    def __init__(self, server: PostgresServer, *, pool_size: int = 20) -> None:
        self._program = find_pgbouncer()
        self._server = server
        self.port = free_port()
        self._process = ServerProcess("pgbouncer", end_signal=signal.SIGKILL)
        users = self._process.write("users", f'"{server.user}" "{server.password or ""}"\n')
        self._configuration = self._process.write(
            "pgbouncer.ini",
            CONFIGURATION.format(
                server_port=server.port,
                port=self.port,
                authentication="trust" if server.password is None else "scram-sha-256",
                users=users,
                pool_size=pool_size,
            ),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id, or None when it doesn't run."""
        return self._process.pid

    def start(self) -> None:
        """Start the pool and wait until it takes connections."""
        self._process.start([self._program, "-q", self._configuration], ready=lambda: accepts_connections(self.port))

    def stop(self) -> None:
        """Stop the pool at once, with the connections through it."""
        self._process.end()

    def restart(self) -> None:
        """Stop the pool and start it on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the pool and remove its files."""
        self._process.close()

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database through the pool."""
        return self._server.url(database).replace(f":{self._server.port}/", f":{self.port}/")
