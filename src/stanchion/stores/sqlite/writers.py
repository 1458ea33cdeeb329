"""Fairness among the processes that write to a SQLite file.

SQLite keeps no order of those who want its write lock: each looks again and again, and one that has just released it is
back before the others look. Among many writers some would wait for longer than a call may take. So a process that has
waited for long locks a file beside the store's. The others look at that before they ask for the write lock, and let the
process go first. The lock of a process that dies is free; one that stands still holds up each of the others once.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress

from stanchion.core.forks import reset_after_fork

with suppress(ImportError):  # Windows has none: whoever looks at the right moment goes first
    import fcntl

_LOCKS = os.name == "posix"

LONG_SECONDS = 0.25
"""After so long a writer asks the others to let it go first."""
GIVE_WAY_SECONDS = 2.0
"""For so long a call lets others go first. If it gets the lock then, nobody goes first for _IGNORE_SECONDS: the one who
asked for it makes no use of it."""
_IGNORE_SECONDS = 30.0
_LOOK_SECONDS = 0.1


class WriterQueue:
    """The lock of the one that has waited for long, as one process sees it; its file is made when it is needed."""

    def __init__(self, path: str) -> None:
        self._path = f"{path}-writers"
        self._file: int | None = None
        reset_after_fork(self)

    def begin(self) -> None:
        """Have no file open: locks of one that a fork has copied are the parent's too."""
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._looked_at = self._ignored_until = -math.inf

    def goes_first(self) -> bool:
        """Tell whether another process has waited for long."""
        now = time.monotonic()
        if now < self._ignored_until or not self._open(now):
            return False
        if not self._lock(shared=True):
            return True
        self.leave()
        return False

    def ignore(self) -> None:
        """Let nobody go first for a while."""
        self._ignored_until = time.monotonic() + _IGNORE_SECONDS

    def go_first(self) -> bool:
        """Ask the others to let this process go first; False where one of them has asked before."""
        return self._open(time.monotonic(), make=True) and self._lock(shared=False)

    def leave(self) -> None:
        """Give up the lock."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self, *, shared: bool) -> bool:
        assert self._file is not None  # noqa: S101 - it is open
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _open(self, now: float, *, make: bool = False) -> bool:
        """Tell whether the file is open; open it where it is there, for which it looks now and then, or make it."""
        if self._file is None and _LOCKS and (make or now - self._looked_at > _LOOK_SECONDS):
            self._looked_at = now
            with suppress(OSError):
                self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o666)
        return self._file is not None
