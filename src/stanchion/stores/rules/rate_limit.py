"""The one rule of all rates: GCRA, the generic cell rate algorithm, kept as a token bucket.

One start comes due every 1/rate seconds. What the rule adds to that, and why:

* A start that is taken late by up to the tolerance does not delay the next: else a worker that looks 5 ms late loses
  5 % of a rate of 10/s, and a job that comes back when it was told to finds nothing.
* Idle time saves up a tenth of a second's worth, at least one start, and no tolerance.
* A job that has to wait is promised a time, one behind the other, and is admitted when it returns. One that comes for
  the first time while others wait stands behind them, unless their next start was left for longer than the tolerance.
* Where returning jobs find less than they were promised, as nothing claimed for a while, each is promised another time,
  one behind the other; and all that were promised a time behind them likewise, when they return. So their order holds
  over a standstill. It holds no longer where claims always come later than the tolerance: then a job that was sent away
  for the third time stands behind those sent away for the second. The jobs that are promised another time return one by
  one, so the first claim after a standstill may leave a part of what was saved up to the next ones.

So in any stretch of time no more jobs start than the rate allows for it and for the tolerance, and one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from stanchion.stores.records.jobs import SECOND

_SAVED_SECONDS = 0.1
_TOLERANCE_SECONDS = 0.05


class Promise(NamedTuple):
    """The time that a job was promised, which asks again; `again`: for the second time, or more."""

    at: int
    again: bool


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` as they were at `filled_at`, by the store's clock: a start takes one."""

    rate: float
    tokens: float
    filled_at: int
    promised: int = 0
    """The last time that was promised to a job which asked for the first time."""
    promised_again: int = 0
    """The last time that was promised to a job which had returned too early."""

    @property
    def capacity(self) -> float:
        """The most that idle time saves up."""
        return max(1.0, self.rate * _SAVED_SECONDS)

    @property
    def tolerant_capacity(self) -> float:
        """The most that is there while jobs start late by no more than the tolerance."""
        return max(self.capacity, 1 + self.rate * _TOLERANCE_SECONDS)

    def at(self, now: int) -> Bucket:
        """Return the bucket filled up to `now`; a clock set back takes nothing away."""
        filled = self.tokens + max(0, now - self.filled_at) / SECOND * self.rate
        late = filled <= self.tolerant_capacity or self._awaited(now)
        most = self.tolerant_capacity if late else self.capacity
        return replace(self, tokens=min(most, filled), filled_at=now)

    def _awaited(self, now: int) -> bool:
        """Tell whether jobs have been promised times that are to come."""
        return max(self.promised, self.promised_again) > now

    @property
    def whole(self) -> int:
        """The number of jobs that may start now."""
        # A millionth is forgiven, or rounding would make a waiter come a moment too early, twice.
        return int(self.tokens + 1e-6)

    def admits(self, promise: Promise | None) -> bool:
        """Tell whether a job may start at `filled_at`."""
        if promise is None:
            first = not self._awaited(self.filled_at) or self.tokens >= self.tolerant_capacity
        else:
            first = promise.again or promise.at > self.promised_again
        return first and self.whole >= 1

    def spent(self, jobs: int) -> Bucket:
        """Return the bucket after so many starts."""
        return replace(self, tokens=self.tokens - jobs)

    def promising(self, promise: Promise | None) -> tuple[Bucket, int]:
        """Return the bucket after it sent one more job away, and when that one is to ask again."""
        now, interval = self.filled_at, ceil(SECOND / self.rate)
        soon = now + ceil(self.next_in * SECOND)
        if promise is not None and promise.again and self.next_in < min(_TOLERANCE_SECONDS, 0.5 / self.rate):
            return self, soon  # a little too early, and still the first
        if promise is not None:
            due = max(soon, self.promised_again + interval)
            return replace(self, promised_again=due), due
        last = self.promised if self.promised > now else max(self.promised, self.promised_again)
        due = max(soon, last + interval)
        return replace(self, promised=due), due

    def asked(self, now: int, promise: Promise | None) -> tuple[Bucket, int | None]:
        """Return the bucket after one job asked for a start: None when it got it, or when it is to ask again."""
        bucket = self.at(now)
        return (bucket.spent(1), None) if bucket.admits(promise) else bucket.promising(promise)

    @property
    def next_in(self) -> float:
        """Seconds until one more job may start."""
        return max(0.0, (1 - self.tokens) / self.rate)
