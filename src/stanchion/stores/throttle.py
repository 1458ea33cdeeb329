"""A token bucket: at most `rate` starts per second, shared by all who claim."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stanchion.stores.records import SECOND

_BURST_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` as they were at `filled_at`, by the store's clock.

    It holds a tenth of a second's worth, at least one, so that no second sees many more starts than `rate`.
    """

    rate: float
    tokens: float
    filled_at: int
    promised: int = 0
    """When the last of those that were sent away is to ask again."""

    @property
    def capacity(self) -> float:
        """The most it can hold."""
        return max(1.0, self.rate * _BURST_SECONDS)

    def at(self, now: int) -> Bucket:
        """Return the bucket filled up to `now`; a clock set back takes nothing away."""
        passed = max(0, now - self.filled_at) / SECOND
        return replace(self, tokens=min(self.capacity, self.tokens + passed * self.rate), filled_at=now)

    @property
    def whole(self) -> int:
        """The number of jobs that may start now."""
        # A millionth is forgiven, or rounding would make a waiter come a moment too early, twice.
        return int(self.tokens + 1e-6)

    def spent(self, jobs: int) -> Bucket:
        """Return the bucket after so many starts."""
        return replace(self, tokens=self.tokens - jobs)

    def promising(self, now: int) -> Bucket:
        """Return the bucket after one more was sent away: they come back one by one, each when it may start."""
        soon = now + int(self.next_in * SECOND)
        return replace(self, promised=max(soon, self.promised + int(SECOND / self.rate)))

    @property
    def next_in(self) -> float:
        """Seconds until one more job may start."""
        return max(0.0, (1 - self.tokens) / self.rate)
