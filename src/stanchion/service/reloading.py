"""Restarts of a worker in development, when the code of the current folder changes.

start ──► a worker as a process ──a file changes──► SIGTERM: it finishes its jobs ──► start
                  └──it fails, as by a syntax error──► wait for a change ──► start
                  └──it ends as asked──► end
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from stanchion.service.settings import EXIT_OK

log = logging.getLogger("stanchion.reload")

LOOK_SECONDS: Final = 0.5
"""Seconds between two polls of the files."""

LEFT_OUT: Final = frozenset(("__pycache__", "node_modules", "site-packages", "build", "dist"))

Files = dict[str, tuple[int, int]]
"""The time of change and the size of each file."""


def python_files(folder: Path) -> Files:
    """Return the Python files below a folder, except in environments, builds and hidden folders."""
    return dict(_files_in(str(folder)))


def _files_in(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # it is gone
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in LEFT_OUT:
                yield from _files_in(entry.path)
        elif entry.name.endswith(".py"):
            try:
                found = entry.stat()
            except OSError:
                continue
            yield entry.path, (found.st_mtime_ns, found.st_size)


class Reloader:
    """Runs a command again whenever a Python file below `folder` changes.

    `grace`: seconds that the process gets for its jobs after SIGTERM; one that takes 5 s more is killed.
    """

    def __init__(self, command: Sequence[str], folder: Path, grace: float) -> None:
        self._command, self._folder, self._most = list(command), folder, grace + 5.0
        self._asked, self._signals = threading.Event(), 0

    def run(self) -> int:
        """Run until a signal asks this process to stop, or the command ends as it should; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the worker has a session of its own
            signal.signal(number, self._signalled)
        files, code = python_files(self._folder), EXIT_OK
        while not self._asked.is_set():
            process = subprocess.Popen(self._command, start_new_session=True)  # noqa: S603 - this very command
            now = self._changed(files, process)
            if (ended := process.poll()) is None:
                if now != files:
                    log.warning("%s has changed: the worker restarts", _changed_in(files, now))
                code = self._stopped(process)
            elif ended == EXIT_OK:
                return EXIT_OK
            else:
                log.error("the worker ended with code %d; it starts again when a file changes", ended)
                code, now = ended, self._changed(files)
            files = now
        return code

    def _signalled(self, *_: object) -> None:
        self._signals += 1
        self._asked.set()

    def _changed(self, files: Files, process: subprocess.Popen[bytes] | None = None) -> Files:
        """Wait for a change of a file, for a signal, or for the end of the process; return the files."""
        while not self._asked.wait(LOOK_SECONDS) and (process is None or process.poll() is None):
            if (now := python_files(self._folder)) != files:
                return now
        return files

    def _stopped(self, process: subprocess.Popen[bytes]) -> int:
        """Stop the process, immediately if this one gets a second signal; return its exit code."""
        process.terminate()
        signals, waited = self._signals, 0.0
        while True:
            try:
                return process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                waited += LOOK_SECONDS
            if signals < self._signals:
                signals = self._signals
                process.terminate()
            if waited > self._most:
                process.kill()


def _changed_in(before: Files, now: Files) -> str:
    return os.path.relpath(next(name for name in {**now, **before} if before.get(name) != now.get(name)))


def command_again(arguments: Sequence[str], flag: str) -> list[str]:
    """Return the command that runs the command line again by this interpreter, without a flag."""
    return [sys.executable, "-m", "stanchion", *(one for one in arguments if one != flag)]
