"""Log lines that a client could repeat without end, such as for requests that are no HTTP: one a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

EVERY: Final = 60.0
"""Seconds between two records with the same text."""


class OncePerMinute(logging.Filter):
    """Passes one warning of each text in EVERY seconds; the next one says how many were left out.

    For loggers with a few constant texts: they are kept.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        if record.levelno != logging.WARNING:  # an error may have another cause each time
            return True
        text, now = str(record.msg), self._clock()
        at, left_out = self._seen.get(text, (-EVERY, 0))
        if now - at < EVERY:
            self._seen[text] = at, left_out + 1
            return False
        self._seen[text] = now, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out:,} more like it before)", ()
        return True
