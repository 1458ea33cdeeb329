"""What the handlers leave behind: start times and run counts, in memory shared by file.

A file mapping costs a handler well under a microsecond, needs no lock between threads (every
job writes to its own cells) and survives the worker, whatever process or thread model it has.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from time import time

_START_BYTES = 8


class Probe:
    """The cells of jobs numbered 0 to ``capacity - 1``."""

    def __init__(self, path: Path, capacity: int) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), capacity * (_START_BYTES + 1))
        cells = memoryview(self._memory)
        split = capacity * _START_BYTES
        self.path = path
        self.capacity = capacity
        self.starts = cells[:split].cast("d")
        self.runs = cells[split:]

    @classmethod
    def create(cls, path: Path, capacity: int) -> Probe:
        """Return a new probe with all cells at zero; a file of that name is replaced."""
        path.write_bytes(bytes(capacity * (_START_BYTES + 1)))
        return cls(path, capacity)

    def hit(self, job: int) -> None:
        """Record that the handler of this job starts now (seconds since the epoch)."""
        if not self.runs[job]:
            self.starts[job] = time()
        self.runs[job] += 1

    def executed(self) -> int:
        """How many different jobs have started."""
        return self.capacity - bytes(self.runs).count(0)

    def repeated(self) -> int:
        """How many jobs have started more than once."""
        runs = bytes(self.runs)
        return self.capacity - runs.count(0) - runs.count(1)

    def first_start(self) -> float:
        """When the first handler started, in seconds since the epoch."""
        return min(start for start in self.starts if start)
