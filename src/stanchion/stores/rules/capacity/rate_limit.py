"""The rule for all rates: GCRA, the generic cell rate algorithm, kept as a token bucket.

One start comes due every 1/rate seconds. The rule adds:

* A start taken late by up to the tolerance does not delay the next one. Otherwise a worker that polls 5 ms late loses 5
% of a rate of 10/s, and a job that returns at its promised time finds no start.
* Idle time saves up a tenth of a second's worth of starts, at least one, and no tolerance.
* A deferred job is promised a time, each later than the previous one, and is admitted when it returns. A job that asks
for the first time while others wait goes after them, unless their next start stayed unused for longer than the
tolerance.
* After a pause in claims, returning jobs may find fewer starts than promised. Each of them is then promised another
time, in order; so is each job that was promised a later time, when it returns. Their order thus survives a pause. It
does not if claims are always later than the tolerance: a job deferred for the third time then goes after jobs deferred
for the second. Jobs with a second promise return one by one, so the first claim after a pause may leave some saved
starts to the next claims.

A bucket from the future, as after the database's clock was set back, keeps its tokens and forgets its promises: they
would hold up new jobs until the clock has made up for it.

In any period, at most rate * (period + tolerance) + 1 jobs start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.set_back import is_ahead

_SAVED_SECONDS = 0.1
_TOLERANCE_SECONDS = 0.05


class Promise(NamedTuple):
    """The time promised to a job that asks again; `again`: promised for at least the second time."""

    at: int
    again: bool


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` at the time `filled_at`, by the store's clock; a start takes one token."""

    rate: float
    tokens: float
    filled_at: int
    promised: int = 0
    """The latest time promised to a job that asked for the first time."""
    promised_again: int = 0
    """The latest time promised to a job that returned and found no start."""

    @property
    def capacity(self) -> float:
        """The most tokens that idle time saves up."""
        return max(1.0, self.rate * _SAVED_SECONDS)

    @property
    def tolerant_capacity(self) -> float:
        """The most tokens while jobs start late by no more than the tolerance."""
        return max(self.capacity, 1 + self.rate * _TOLERANCE_SECONDS)

    def at(self, now: int) -> Bucket:
        """Return the bucket filled up to `now`; one from before the clock was set back is reset, without promises.

        A reset bucket is full, so it grants a start immediately, and is stored with it.
        """
        if is_ahead(self.filled_at, now):
            return replace(self, tokens=self.capacity, filled_at=now, promised=0, promised_again=0)
        filled = self.tokens + max(0, now - self.filled_at) / SECOND * self.rate
        late = filled <= self.tolerant_capacity or self._awaited(now)
        most = self.tolerant_capacity if late else self.capacity
        return replace(self, tokens=min(most, filled), filled_at=now)

    def _awaited(self, now: int) -> bool:
        """Return True if jobs were promised times after `now`."""
        return max(self.promised, self.promised_again) > now

    @property
    def whole(self) -> int:
        """The number of jobs that may start now; 0 until the items of a chunk that has started are paid for."""
        # The millionth absorbs rounding, which would make a waiting job return slightly too early, twice.
        return max(0, int(self.tokens + 1e-6))

    def admits(self, promise: Promise | None) -> bool:
        """Return True if a job may start at `filled_at`."""
        if promise is None:
            first = not self._awaited(self.filled_at) or self.tokens >= self.tolerant_capacity
        else:
            first = promise.again or promise.at > self.promised_again
        return first and self.whole >= 1

    def spent(self, jobs: int) -> Bucket:
        """Return the bucket after this number of starts."""
        return replace(self, tokens=self.tokens - jobs)

    def promising(self, promise: Promise | None) -> tuple[Bucket, int]:
        """Return the bucket after one more job was deferred, and when that job is to ask again."""
        now, interval = self.filled_at, ceil(SECOND / self.rate)
        soon = now + ceil(self.next_in * SECOND)
        if promise is not None and promise.again and self.next_in < min(_TOLERANCE_SECONDS, 0.5 / self.rate):
            return self, soon  # slightly too early, and still the first
        if promise is not None:
            due = max(soon, self.promised_again + interval)
            return replace(self, promised_again=due), due
        last = self.promised if self.promised > now else max(self.promised, self.promised_again)
        due = max(soon, last + interval)
        return replace(self, promised=due), due

    def asked(self, now: int, promise: Promise | None) -> tuple[Bucket, int | None]:
        """Return the bucket after one job asked for a start, and when to ask again; None if the job may start."""
        bucket = self.at(now)
        return (bucket.spent(1), None) if bucket.admits(promise) else bucket.promising(promise)

    @property
    def next_in(self) -> float:
        """Seconds until one more job may start."""
        return max(0.0, (1 - self.tokens) / self.rate)
