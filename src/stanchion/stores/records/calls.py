"""How long a call to a store may take."""

from __future__ import annotations

import os

from stanchion.core import environment
from stanchion.errors import InvalidInput

_SLOWEST = 2000
"""Jobs that a slow server stores, publishes or finishes in a second."""


def _call_seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidInput(f"{environment.CALL_SECONDS} is {given!r}, and must be a number of seconds above 0")
    return seconds


CALL_SECONDS = _call_seconds(os.environ.get(environment.CALL_SECONDS, "10"))
"""Seconds that a call may take, including its retries, unless it says otherwise because it moves very many jobs.

Read it as `calls.CALL_SECONDS`, at the call: tests set a shorter time.
"""


def seconds_for(jobs: int) -> float:
    """Return the seconds that a call which moves this many jobs may take."""
    return CALL_SECONDS + jobs / _SLOWEST
