"""How long things wait: jobs given back, and receivers that may come back."""

from __future__ import annotations

import random
from typing import NamedTuple


def jittered(seconds: float) -> float:
    """Return a time between two thirds and four thirds of this one, so that many don't come at once."""
    return seconds * random.uniform(2 / 3, 4 / 3)  # noqa: S311 - spreading load


class Delays(NamedTuple):
    """Times in seconds.

    `lease`: of a manager's session; a receiver that was silent for so long is gone. `grace`: how long a receiver whose
    stream has ended is waited for. `first`, `longest`: bounds of the back-off of jobs whose receiver is gone; it
    doubles with each attempt. `poll`: between two looks at the store without a sign. `ahead`: how long before its time
    a job is made ready to be reserved, while no other one is due.
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
