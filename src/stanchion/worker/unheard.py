"""Claims that the store never answered: what they have reserved all the same is found and run."""

from __future__ import annotations

import time

from stanchion.stores.records.claims import Claim

AT_LEAST = 0.5
"""Seconds between two looks for one claim, which grow with its age."""

AT_MOST = 1800.0
"""Seconds after which a claim can't arrive any more: no connection repeats for so long what was not received."""


class UnheardClaims:
    """The claims of one worker whose answers got lost.

    A silent network or a slow server may carry out a claim long after its caller gave up. Its jobs would be
    held by a live worker that does not know of them, and wait for its end. Used by one thread.
    """

    def __init__(self) -> None:
        self._looks: dict[Claim, tuple[float, float]] = {}

    def add(self, claim: Claim) -> None:
        """Take note of a claim whose call failed; its token must not be used for another."""
        now = time.monotonic()
        self._looks[claim._replace(limit=0, repeat=True)] = (now, now)

    def due(self) -> list[Claim]:
        """Return the claims to repeat now; they reserve nothing, and give what the first try has reserved."""
        now = time.monotonic()
        return [claim for claim, (_, look_at) in self._looks.items() if look_at <= now]

    def repeated(self, claim: Claim, *, found: bool) -> None:
        """Forget a claim that was carried out, or is too old to be; look for any other later."""
        since, _ = self._looks.pop(claim)
        now = time.monotonic()
        if not found and now - since < AT_MOST:
            self._looks[claim] = (since, now + max(AT_LEAST, (now - since) / 4))
