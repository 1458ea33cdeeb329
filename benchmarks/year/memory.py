"""The memory of this process and all that it has started, with Spark and the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

_EVERY_SECONDS = 0.5


@dataclass
class Peak:
    """The most bytes that were seen. A page shared by two processes counts half for each."""

    bytes: int = 0

    def look(self) -> None:
        """Look once."""
        found = 0
        for process in (me := psutil.Process(), *me.children(recursive=True)):
            with suppress(psutil.Error):  # it has ended meanwhile
                found += process.memory_full_info().pss
        self.bytes = max(self.bytes, found)


@contextmanager
def peak() -> Iterator[Peak]:
    """Look every half a second within the block."""
    seen, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY_SECONDS):
            seen.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
        seen.look()
