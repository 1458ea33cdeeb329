"""Claims whose replies were lost: they may have reserved jobs, which a live holder that does not know of them keeps."""

from __future__ import annotations

import time

from stanchion.stores.records.claims import Claim

REPEAT_SECONDS_MIN = 0.5
"""Seconds between the first repeats of a claim; they grow with its age."""

REPEAT_SECONDS_MAX = 1800.0
"""Seconds after which a lost claim can no longer reach the store: no connection retransmits for so long."""


class LostReplies:
    """The claims of one worker or consumer whose replies were lost.

    A slow network or server may execute a claim long after its caller gave up. A live worker that does not know of
    these jobs would then hold them until it ends. Used by one thread.
    """

    def __init__(self) -> None:
        self._repeats: dict[Claim, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._repeats)

    def add(self, claim: Claim) -> None:
        """Remember a claim whose call failed; its token must not be used for another claim."""
        now = time.monotonic()
        self._repeats[claim._replace(limit=0, repeat=True)] = (now, now)

    def due(self) -> list[Claim]:
        """Return the claims to repeat now. They reserve nothing new; they return the jobs of the first try."""
        now = time.monotonic()
        return [claim for claim, (_, repeat_at) in self._repeats.items() if repeat_at <= now]

    def forget(self, claim: Claim) -> None:
        """Forget a claim that another caller has repeated."""
        self._repeats.pop(claim._replace(limit=0, repeat=True), None)

    def repeated(self, claim: Claim, *, found: bool) -> None:
        """Forget a claim that was executed or is too old; repeat any other later."""
        now = time.monotonic()
        since, _ = self._repeats.pop(claim)
        if not found and now - since < REPEAT_SECONDS_MAX:
            self._repeats[claim] = (since, now + max(REPEAT_SECONDS_MIN, (now - since) / 4))
