"""The pace of a claimer: poll intervals, prefetch, pick-up delays, and claims whose replies got lost."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable
from statistics import quantiles
from typing import Any

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow

JITTER = 0.2
"""Share by which a poll interval varies up and down, so that workers don't march in step."""


def poll_interval(poll: float, sharing: int) -> float:
    """Return the seconds until one worker polls again, when `sharing` workers together poll every `poll` seconds."""
    return poll * max(1, sharing) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreading load


class Prefetch:
    """How many jobs to hold beyond those that run: what would be finished within `window` seconds.

    Trivial jobs then arrive in batches of hundreds, and slow ones stay in the store for other workers. The window is
    shorter where jobs come from lanes: what is held goes first, and a tenant that has just come waits for its end.
    """

    WINDOW, WINDOW_OF_LANES = 0.05, 0.01

    SAMPLE = 0.01
    """The shortest time in seconds that tells a rate."""

    MEMORY = 0.1
    """Seconds after which an earlier rate counts for nothing."""

    def __init__(self, window: float = WINDOW, most: int = 1000) -> None:
        self._window, self._most = window, most
        self._at: float | None = None
        self._finished = 0
        self.rate = 0.0
        """Jobs finished per second, lately."""

    def claimed(self, lane: int) -> None:
        """Take note of the lane that the last job came from."""
        self._window = self.WINDOW if lane == UNLANED else self.WINDOW_OF_LANES

    def jobs(self, finished: int, now: float) -> int:
        """Return the number of jobs, when `finished` ended so far, at `now` on a steady clock."""
        if self._at is None:
            self._at, self._finished = now, finished
        elif (elapsed := now - self._at) >= self.SAMPLE:
            latest = (finished - self._finished) / elapsed
            self.rate += (latest - self.rate) * min(1.0, max(0.5, elapsed / self.MEMORY))
            self._at, self._finished = now, finished
        return min(int(self.rate * self._window), self._most)


DELAYS_MAX = 1000
"""So many jobs of each queue are remembered."""


class PickupDelays:
    """The pick-up delays of the latest jobs, by queue. One thread adds, any may ask."""

    def __init__(self) -> None:
        self._delays: dict[str, deque[int]] = {}

    def add(self, queue: str, rows: Iterable[JobRow]) -> None:
        """Take note of jobs that were claimed."""
        latest = self._delays.setdefault(queue, deque(maxlen=DELAYS_MAX))
        latest.extend((row.started_at or row.run_at) - row.run_at for row in rows)

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return for each queue how many jobs this tells of, and their delays in seconds: median, 99 %, largest."""
        return {queue: _summary(sorted(latest.copy())) for queue, latest in self._delays.copy().items() if latest}


def _summary(delays: list[int]) -> dict[str, Any]:
    cuts = quantiles(delays, n=100, method="inclusive") if len(delays) > 1 else delays * 99
    middle, high, most = (max(0, each) / SECOND for each in (cuts[49], cuts[98], delays[-1]))
    return {"jobs": len(delays), "p50": round(middle, 6), "p99": round(high, 6), "max": round(most, 6)}


REPEAT_SECONDS_MIN = 0.5
"""Seconds between two repeats of one claim, at first; they grow with its age."""

REPEAT_SECONDS_MAX = 1800.0
"""Seconds after which a claim can't arrive any more: no connection repeats for so long what was not received."""


class LostReplies:
    """The claims of one worker whose replies got lost.

    A silent network or a slow server may carry out a claim long after its caller gave up. Its jobs would be
    held by a live worker that does not know of them, and wait for its end. Used by one thread.
    """

    def __init__(self) -> None:
        self._repeats: dict[Claim, tuple[float, float]] = {}

    def add(self, claim: Claim) -> None:
        """Take note of a claim whose call failed; its token must not be used for another."""
        now = time.monotonic()
        self._repeats[claim._replace(limit=0, repeat=True)] = (now, now)

    def due(self) -> list[Claim]:
        """Return the claims to repeat now; they reserve nothing, and give what the first try has reserved."""
        now = time.monotonic()
        return [claim for claim, (_, repeat_at) in self._repeats.items() if repeat_at <= now]

    def repeated(self, claim: Claim, *, found: bool) -> None:
        """Forget a claim that was carried out, or is too old to be; repeat any other later."""
        since, _ = self._repeats.pop(claim)
        now = time.monotonic()
        if not found and now - since < REPEAT_SECONDS_MAX:
            self._repeats[claim] = (since, now + max(REPEAT_SECONDS_MIN, (now - since) / 4))
