"""A server program that runs in the foreground for the tests and leaves nothing behind."""

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

START_SECONDS = 60
STOP_SECONDS = 60

# Below the ephemeral ports, so that no outgoing connection takes the port of a server that is down.
PORTS = range(15_000, 32_000)

# Its input ends when the tests do, in whatever way. Each line names the server process of that moment.
GUARD = """
server=
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    kill -s "$2" "$server"
    tries=0
    while [ $tries -lt 50 ] && kill -0 "$server"; do sleep 0.1; tries=$((tries + 1)); done
    kill -KILL "$server"
fi
rm -rf "$1"
"""


class ServerMissing(Exception):
    """The server's programs are not installed; the message says what to install."""


class ServerFailed(Exception):
    """The server did not start or stop; the message holds the end of its log."""


def find_program(name: str, *directories: Path) -> Path | None:
    """Return where the program is, on PATH or else in one of the directories."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, directories)))
    return Path(found).resolve() if found else None


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def accepts_connections(port: int) -> bool:
    """Say whether something listens on the loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def unprivileged() -> dict[str, Any]:
    """Return the `subprocess` options that leave root; none when not root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class ServerProcess:
    """One server process with a private directory; `end_signal` ends it at once.

    It `leaves_root`: started by root, it runs as another user.

    A guard process ends the server and removes the directory when the tests close it, and also
    when the tests are killed.
    """

    def __init__(self, name: str, end_signal: signal.Signals, *, leaves_root: bool = True) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"stanchion-{name}-"))
        self._end_signal = end_signal
        self._owner = unprivileged() if leaves_root else {}
        if self._owner:
            os.chown(self.directory, self._owner["user"], self._owner["group"])
        self._log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self.directory, end_signal.name.removeprefix("SIG")],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int | None:
        """The process id, or None when the server doesn't run."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def run(self, command: Sequence[str | Path]) -> None:
        """Run a preparing command as the server's user."""
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._surroundings())
        if done.returncode:
            raise ServerFailed(f"{command[0]} failed: {done.stderr or done.stdout}")

    def folder(self, name: str) -> Path:
        """Make a folder in which the server can write."""
        path = self.directory / name
        path.mkdir(mode=0o700)
        if self._owner:
            os.chown(path, self._owner["user"], self._owner["group"])
        return path

    def write(self, name: str, text: str) -> Path:
        """Write a file that the server can read."""
        path = self.directory / name
        path.write_text(text)
        if self._owner:
            os.chown(path, self._owner["user"], self._owner["group"])
        path.chmod(0o600)
        return path

    def start(self, command: Sequence[str | Path], ready: Callable[[], bool], retry_on: str = "") -> None:
        """Start the server and wait until it is ready; try again when it ends with that text in its log."""
        deadline = time.monotonic() + START_SECONDS
        while not self._started(command, ready, deadline):
            log = self._log.read_text(errors="replace")
            if time.monotonic() > deadline or not retry_on or retry_on not in log:
                self.signal(signal.SIGKILL)
                raise ServerFailed(f"{command[0]} did not start: {log[-2000:]}")
            time.sleep(0.1)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and wait for the end; nothing when the server doesn't run."""
        if self._process is None:
            return
        if self.pid is not None:
            self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log = self._log.read_text(errors="replace")
            raise ServerFailed(f"still running after {number.name}: {log[-2000:]}") from None
        self._tell_guard("")
        self._process = None

    def end(self) -> None:
        """End the server at once; nothing when it doesn't run."""
        self.signal(self._end_signal)

    def close(self) -> None:
        """End the server at once and remove its directory."""
        if self._guard.poll() is not None:
            return
        self.end()
        self._guard.communicate()

    def _started(self, command: Sequence[str | Path], ready: Callable[[], bool], deadline: float) -> bool:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._surroundings(),
            )
        self._tell_guard(str(self._process.pid))
        while self._process.poll() is None and time.monotonic() < deadline:
            if ready():
                return True
            time.sleep(0.02)
        return False

    def _tell_guard(self, line: str) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{line}\n".encode())
        self._guard.stdin.flush()

    def _surroundings(self) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        return {"cwd": self.directory, "env": environment, **self._owner}
