"""When the driver starts again what has ended: the query of a station, or the job whose tasks are workers.

A failure that a retry does not help is raised, as is one too many in a row with `available_now`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field

from stanchion.errors import StanchionError

log = logging.getLogger("stanchion.spark")

_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 1.0, 30.0
_SHOWN = 500
_LASTING = ("StreamTaken", "StreamStopped", "ForeignCheckpoint", "InvalidInput", "MissingExtra", "BatchNotKept")
"""Errors that a retry does not help, by name, as Spark reports only text."""


@dataclass
class Restarts:
    """What has failed, and when it may start again. `bounded`: give up after too many failures in a row."""

    bounded: bool
    _begin_at: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    """Failures in a row of each name, without progress in between."""

    def may_start(self, name: str) -> bool:
        """Return whether it has not failed a moment ago."""
        return time.monotonic() >= self._begin_at.get(name, 0.0)

    def progressed(self, name: str) -> None:
        """Take in that it has processed items since its last failure."""
        self._failures[name] = 0
        self._pauses.pop(name, None)

    def failed(
        self, name: str, what: str, error: str, cause: BaseException | None, *, tries: int, pause: bool = True
    ) -> None:
        """Take in a failure of `what`, and decide when it may start again. Raises StanchionError if it may not.

        `error`: its text; `tries`: how many failures in a row `bounded` allows; `pause`: wait before the next try.
        """
        self._failures[name] += 1
        lasting = any(known in error for known in _LASTING)
        lines = [line.strip() for line in error.splitlines() if line.strip()]
        own = [line for line in lines if any(f"{known}: " in line for known in _LASTING)]
        message = f"{what} failed: {(own or lines or ['it ended without an error'])[0][:_SHOWN]}"
        if lasting or (self.bounded and self._failures[name] > tries):
            raise StanchionError(message) from cause
        seconds = self._longer_pause(name) if pause else 0.0
        log.warning("%s; restarting it in %.0f s", message, seconds)
        self._begin_at[name] = time.monotonic() + seconds

    def _longer_pause(self, name: str) -> float:
        last = self._pauses.get(name, _PAUSE_SECONDS_MIN / 2)
        pause = self._pauses[name] = min(2 * last, _PAUSE_SECONDS_MAX)
        return pause
