"""Claims of consumers with heartbeats that no caller repeats any more."""

from __future__ import annotations

import threading

from stanchion.stores.records.claims import Claim


class LostClaims:
    """The claims of consumers with heartbeats that no caller repeats any more. Each consumer takes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, list[Claim]] = {}

    def add(self, claim: Claim) -> None:
        """Keep a claim that may have reserved jobs. Jobs under a lease return by themselves."""
        if claim.worker is not None:
            with self._lock:
                self._of.setdefault(claim.worker, []).append(claim)

    def take(self, consumer: str) -> list[Claim]:
        """Return the claims of a consumer, and forget them."""
        with self._lock:
            return self._of.pop(consumer, [])
