"""Delays: of returned jobs, and for receivers that may return."""

from __future__ import annotations

import random
from typing import NamedTuple


def jittered(seconds: float) -> float:
    """Return a time between two thirds and four thirds of this one, so that many don't coincide."""
    return seconds * random.uniform(2 / 3, 4 / 3)  # noqa: S311 - spreading load


class Delays(NamedTuple):
    """Times in seconds.

    `lease`: of a manager's session; a receiver silent for so long is gone. `grace`: the wait for a receiver whose
    stream has ended. `first`, `longest`: bounds of the back-off of jobs whose receiver is gone; it
    doubles with each attempt. `poll`: between two polls of the store without a signal. `ahead`: how long before its
    time a job is prepared for its claim, while no other one is due.
    """

    lease: float = 5.0
    grace: float = 2.0
    first: float = 1.0
    longest: float = 60.0
    poll: float = 1.0
    ahead: float = 0.0

    def before_retry(self, attempts: int) -> float:
        """Return the back-off of a job that was begun so many times."""
        return jittered(min(self.longest, self.first * 2.0 ** min(max(0, attempts - 1), 30)))
