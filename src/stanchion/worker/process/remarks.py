"""Log lines without waiting: a handler may block for ever, and a stop must not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from stanchion.core.concurrency.background import Background

log = logging.getLogger("stanchion.worker")

WAITING_MAX = 100


class Remarks:
    """Calls the log in a separate thread."""

    def __init__(self) -> None:
        self._calls = Background("stanchion-remarks", _call, WAITING_MAX)

    def info(self, text: str, *values: object) -> None:
        """Log at INFO."""
        self.call(partial(log.info, text, *values))

    def warning(self, text: str, *values: object) -> None:
        """Log at WARNING."""
        self.call(partial(log.warning, text, *values))

    def error(self, text: str, *values: object) -> None:
        """Log at ERROR."""
        self.call(partial(log.error, text, *values))

    def call(self, say: Callable[[], object]) -> None:
        """Call what logs."""
        self._calls.put(say)

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` until all is logged; no further calls are made."""
        self._calls.close(seconds)


def _call(say: Callable[[], object]) -> None:
    with suppress(Exception):  # a handler's fault must not reach the worker
        say()
