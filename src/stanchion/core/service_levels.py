"""Bands of priority, and the service levels that each is to keep."""

from __future__ import annotations

from typing import NamedTuple


class Band(NamedTuple):
    """Jobs of a `least` priority, below those of the band before.

    `max_age`: seconds that one may be due before it is started; `max_run`: seconds that an attempt may take;
    `max_attempts`: how many it may need.
    """

    name: str
    least: int
    max_age: float
    max_run: float
    max_attempts: int


BANDS = (
    Band("interactive", 60, 60.0, 30.0, 3),
    Band("user_visible", 20, 180.0, 90.0, 5),
    Band("eventual", -20, 5400.0, 300.0, 8),
    Band("reporting", -100, 14_400.0, 600.0, 8),
)
"""From the most urgent to the least."""


def band_of(priority: int) -> Band:
    """Return the band of a priority."""
    return next((band for band in BANDS if priority >= band.least), BANDS[-1])
