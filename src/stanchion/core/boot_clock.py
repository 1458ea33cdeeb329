"""The clock of local deadlines."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_clock() -> float:
    """Return seconds of a clock that runs while the machine sleeps; CLOCK_MONOTONIC stops then, except on macOS."""
    return time.clock_gettime(_CLOCK)
