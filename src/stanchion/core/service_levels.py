"""Priority bands and their service levels."""

from __future__ import annotations

from typing import Literal, NamedTuple

BandName = Literal["interactive", "user_visible", "eventual", "reporting"]


class Band(NamedTuple):
    """Jobs of at least this priority, below the band before.

    `priority`: of a job that names the band, in its middle. `max_age`: seconds from due to start; `max_run`:
    seconds per attempt; `max_attempts`: attempts per job.
    """

    name: BandName
    least: int
    priority: int
    max_age: float
    max_run: float
    max_attempts: int


BANDS = (
    Band("interactive", 60, 80, 60.0, 30.0, 3),
    Band("user_visible", 20, 40, 180.0, 90.0, 5),
    Band("eventual", -20, 0, 5400.0, 300.0, 8),
    Band("reporting", -100, -60, 14_400.0, 600.0, 8),
)
"""From the most urgent to the least."""


def band_of(priority: int) -> Band:
    """Return the band of a priority."""
    return next((band for band in BANDS if priority >= band.least), BANDS[-1])
