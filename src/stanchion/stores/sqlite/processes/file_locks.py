"""Locks of files next to a database, by which processes of one machine take turns. A dead one's lock is free."""

from __future__ import annotations

import os
from contextlib import suppress

with suppress(ImportError):  # Windows has no fcntl: there, `opened` returns no file
    import fcntl


def opened(path: str, *, make: bool = True) -> int | None:
    """Open a file for locks, and for what processes write into it; None where that is not possible.

    `make`: also if there is no such file.
    """
    if os.name == "posix":
        with suppress(OSError):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o666)
    return None


def locked(file: int, *, shared: bool = False) -> bool:
    """Lock a file, without waiting; return False if another process keeps this one from it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock(file: int) -> None:
    """Release the lock."""
    fcntl.flock(file, fcntl.LOCK_UN)
