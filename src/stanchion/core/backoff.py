"""Back-off: retrying a store that does not answer."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from stanchion.core.checks import seconds_of
from stanchion.errors import StoreUnavailable

T = TypeVar("T")

log = logging.getLogger("stanchion")


class Backoff:
    """Pauses that double from `first` to `longest` seconds while calls keep failing; half of each is random."""

    def __init__(self, first: float = 0.1, longest: float = 5.0) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def failed(self) -> float:
        """Return the seconds to wait after one more failure."""
        pause, self._next = self._next, min(self._next * 2, self._longest)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - spreading load

    def succeeded(self) -> None:
        """Reset to the shortest pause."""
        self._next = self._first


def deadline_in(seconds: float | timedelta | None) -> float:
    """Return the deadline in `seconds` from now, on the monotonic clock; None: never."""
    return math.inf if seconds is None or seconds == math.inf else time.monotonic() + seconds_of(seconds, "timeout")


def retry_until(ask: Callable[[bool], T], deadline: float) -> T:
    """Call the store, and retry until `deadline` on the monotonic clock while it is unavailable.

    `ask` gets True if it repeats a call whose reply was lost. Raises StoreUnavailable at the deadline, or immediately
    if the error is lasting.
    """
    backoff, repeat = Backoff(), False
    while True:
        try:
            return ask(repeat)
        except StoreUnavailable as error:
            left = deadline - time.monotonic()
            if error.lasting or left <= 0:
                raise
            repeat, pause = True, min(backoff.failed(), left)
            log.warning("waiting for the store, next try in %.1f s: %s", pause, error)
            time.sleep(pause)
