"""The pulse of a worker process: a file in memory that shows whether its threads run, and for how long its jobs may.

A task that holds the GIL, as a regular expression or a C extension may, stops every thread of its process, the
heartbeat's too. Another process reads here that this one lives, and sends its heartbeats meanwhile.
"""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stanchion.core.boot_clock import boot_clock

TICK = 0.2
"""Seconds between two beats of the pulse."""

_LAYOUT = struct.Struct("<dd384s")
_TIMES = struct.Struct("<dd")


class Pulse(NamedTuple):
    """Content of a file: when the threads last ran, until when the longest job may run, by the boot clock; the worker's
    id.
    """

    at: float
    until: float
    worker: str


class PulseWriter:
    """Keeps the file of this process. `unlimited`: seconds that a job without a time-out gets."""

    def __init__(self, file: Path, unlimited: float) -> None:
        self._unlimited = unlimited
        self._until = self._told_at = 0.0
        file.write_bytes(bytes(_LAYOUT.size))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), _LAYOUT.size)
        self._stopping = threading.Event()

    def start(self, worker: str, left: Callable[[float], float | None]) -> None:
        """Start the thread. `left(unlimited)`: the seconds that running jobs have left at most, None if none runs."""
        self._left = left
        self._memory[_TIMES.size :] = worker.encode().ljust(_LAYOUT.size - _TIMES.size, b"\0")
        threading.Thread(target=self._run, name="stanchion-pulse", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread: the jobs of this process need no monitor any more."""
        self._stopping.set()
        self._write(0.0)

    def begins(self, seconds: float | None) -> None:
        """Record immediately that a job begins, and its maximum seconds, as it may hold the GIL from here."""
        now = boot_clock()
        until = now + (self._unlimited if seconds is None else seconds)
        self._told_at = now
        if until > self._until:
            self._write(until)

    def _write(self, until: float) -> None:
        self._until = until
        _TIMES.pack_into(self._memory, 0, boot_clock(), until)

    def _run(self) -> None:
        while not self._stopping.wait(TICK):
            now, left = boot_clock(), self._left(self._unlimited)
            until = 0.0 if left is None else now + left
            # A job that has just begun may not be among the running ones yet.
            self._write(max(until, self._until) if now - self._told_at < 2 * TICK else until)


def pulse_in(file: Path) -> Pulse | None:
    """Return a file's content; None if it is not there yet."""
    try:
        at, until, worker = _LAYOUT.unpack(file.read_bytes())
    except (OSError, struct.error):
        return None
    return Pulse(at, until, worker.rstrip(b"\0").decode())
