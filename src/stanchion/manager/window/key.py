"""The key of a queued job: all that a window keeps of it."""

from __future__ import annotations

from typing import NamedTuple

COLUMNS = ("rank", "run_at", "id", "lane")
"""The columns of a job that make up its key, in this order; rank is negated then."""


class Key(NamedTuple):
    """A queued job, so that sorted keys are in the order of claims; `order` is the negative rank."""

    order: int
    run_at: int
    id: str
    lane: int

    @property
    def rank(self) -> int:
        """What claims sort by, higher first."""
        return -self.order


def key_of(rank: int, run_at: int, job_id: str, lane: int) -> Key:
    """Return the key of a job."""
    return Key(-rank, run_at, job_id, lane)
