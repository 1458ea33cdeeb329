"""Heartbeats for worker processes whose own threads can't run, as a task holds the GIL.

A supervisor sends them for its processes. A worker process without one starts this module as a separate process.

    silent for a heartbeat ──► alive, and within the time of its jobs: beats for it ──► runs again
                                                                       └──► out of time: its jobs go to others,
                                                                            and the process is killed
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stanchion.context import context_of
from stanchion.context.steadiness import MISSED
from stanchion.core.boot_clock import boot_clock
from stanchion.errors import InvalidInput
from stanchion.service.loading import load
from stanchion.service.logs import log_to_stderr
from stanchion.service.settings import WorkerSettings
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion.worker.process.pulse import PulseWriter, pulse_in
from stanchion.worker.worker import Worker, oversight_of

log = logging.getLogger("stanchion.worker")

LOOKS = 4
"""Looks in a heartbeat."""

LOOK_SECONDS_MAX = 1.0

Process = tuple[int, Path]
"""The id of a worker process, and the file of its pulse."""


class StandIn:
    """Beats, from a thread of the caller, for the processes of `living()` whose own threads don't run.

    `every`: seconds between their heartbeats. `opened()`: the store, asked for at the first need: most processes never
    have any, and its driver takes memory and time.
    """

    def __init__(self, living: Callable[[], Sequence[Process]], every: float, opened: Callable[[], Store]) -> None:
        self._living, self._every, self._opened = living, every, opened
        self._store: Store | None = None
        self._pause = min(every / LOOKS, LOOK_SECONDS_MAX)
        self._beaten: dict[int, float] = {}
        self._told: dict[int, tuple[str, float]] = {}

    def run(self, stopping: threading.Event) -> None:
        """Monitor the processes until asked to stop."""
        while not stopping.wait(self._pause):
            for process, file in self._living():
                try:
                    self._look(process, file)
                except Exception as error:
                    log.warning("the heartbeat for process %d failed: %s: %s", process, type(error).__name__, error)
        if self._store is not None:
            self._store.close()

    def _look(self, process: int, file: Path) -> None:
        pulse, now = pulse_in(file), boot_clock()
        if pulse is None or not pulse.at or now - pulse.at < self._every:
            self._told.pop(process, None)
            return
        if not pulse.until or stands_still(process):
            return
        if now >= pulse.until:
            since = self._tell(process, "and its jobs are out of time: others get them")
            if time.monotonic() - since >= MISSED * self._every:
                self._kill(process)
        elif now - self._beaten.get(process, 0.0) >= self._every / 2:
            self._tell(process, "as a task holds the GIL: its heartbeats are sent for it")
            self._beat(pulse.worker)
            self._beaten[process] = now

    def _beat(self, worker: str) -> None:
        if self._store is None:
            self._store = self._opened()
        rows = [row for row in self._store.workers() if row.id == worker]
        if rows:  # its last own report
            self._store.beat(rows)

    def _kill(self, process: int) -> None:
        """Kill a process whose jobs others have got.

        One of its threads may be in a transaction whose locks keep others from the store. If it ran on, its
        attempts would run twice. Its silence is measured here, by a clock that stops while the machine sleeps: after a
        sleep the pulse is old for a moment, though all is well.
        """
        log.error("the threads of process %d still don't run: it is killed, as it may hold locks of the store", process)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    def _tell(self, process: int, what: str) -> float:
        """Log a changed state of a process; return its start, by the monotonic clock."""
        told, since = self._told.get(process, ("", 0.0))
        if told != what:
            since = time.monotonic()
            self._told[process] = what, since
            log.warning("the threads of process %d don't run, %s", process, what)
        return since


def stands_still(process: int) -> bool:
    """Return True if a process is stopped by a signal or a debugger, or gone."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        command = ["ps", "-o", "state=", "-p", str(process)]  # where there is no /proc, as on macOS
        try:
            state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()[:1]  # noqa: S603
        except OSError:
            return False
    return state in ("", "T", "t", "Z", "X")


def stands_in(url: str) -> bool:
    """Return whether another process can beat for workers of this store.

    A store in memory is out of reach. Managers return the jobs of a silent receiver by themselves.
    """
    return not url.startswith(("memory:", "grpc"))


def store_of(target: str) -> Store | None:
    """Return the store of an app, opened once more; None if no other process can beat there."""
    context = context_of(load(target))
    try:
        url = context.place
    except InvalidInput:  # a store that was given as an object
        return context.store
    return open_store(url) if stands_in(url) else None


@contextmanager
def watched(worker: Worker, settings: WorkerSettings) -> Iterator[None]:
    """Let another process beat for this worker: the supervisor, or a separate one."""
    if settings.pulse_file is not None:
        oversight_of(worker).pulse = PulseWriter(Path(settings.pulse_file), settings.stall)
        yield
        return
    try:
        url = context_of(worker).place
    except InvalidInput:  # a store that was given as an object
        url = "memory:"
    if not stands_in(url):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="stanchion-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "pulse")
        oversight_of(worker).pulse = PulseWriter(file, settings.stall)
        command = [sys.executable, "-m", "stanchion.service.stand_in", str(os.getpid()), str(file)]
        own = [*command, str(settings.heartbeat), settings.log_level, settings.log_format]
        process = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(url.encode())  # not on its command line, as there may be a password in it
        try:
            yield
        finally:
            process.kill()
            process.wait()


def main(parent: str, file: str, every: str, level: str, form: str) -> None:
    """Send heartbeats for the parent process until it ends."""
    log_to_stderr(level, form)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # sent to the whole group; the parent may still need it
    url, stopping = sys.stdin.read(), threading.Event()

    def living() -> list[Process]:
        if os.getppid() != int(parent):  # it was killed
            stopping.set()
            shutil.rmtree(Path(file).parent, ignore_errors=True)
            return []
        return [(int(parent), Path(file))]

    StandIn(living, float(every), lambda: open_store(url)).run(stopping)


if __name__ == "__main__":
    main(*sys.argv[1:])
