"""A bound on the attempts to log in."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final

ALLOWED: Final = 5
"""Attempts that fail, per address in a minute, before more are refused."""

MINUTE: Final = 60.0

_ADDRESSES_MAX: Final = 10_000


class Attempts:
    """Attempts that failed, by address; times are seconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, address: str, now: float) -> float:
        """Return the seconds until an attempt is allowed; 0: now."""
        with self._lock:
            times = self._failed.get(address)
            if times is None or len(times) < ALLOWED:
                return 0.0
            return max(0.0, times[0] + MINUTE - now)

    def failed(self, address: str, now: float) -> None:
        """Note a failed attempt."""
        with self._lock:
            self._failed.setdefault(address, deque(maxlen=ALLOWED)).append(now)
            self._failed.move_to_end(address)
            while len(self._failed) > _ADDRESSES_MAX:
                self._failed.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget the failed attempts of an address."""
        with self._lock:
            self._failed.pop(address, None)
