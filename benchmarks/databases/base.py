"""What every database offers to the measurements."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from benchmarks.contenders import Place

Counters = dict[str, float]
"""What a server has counted so far, by what it counts."""


class Database(Protocol):
    """A database for the time of a run."""

    def fresh(self) -> AbstractContextManager[Place]:
        """An empty place for one measurement, gone afterwards."""

    def counters(self, place: Place) -> Counters:
        """Read the server's counters once all clients of the place have left; empty where there are none."""

    def tidy(self, place: Place) -> None:
        """Do now what the server would do at some time during the measurement."""

    def facts(self) -> dict[str, str]:
        """Return the server's version and what it promises of a commit."""


def per_job(before: Counters, after: Counters, jobs: int) -> dict[str, float]:
    """Return what some jobs cost the server, by column title."""
    return {f"{name}/job": (after[name] - before[name]) / jobs for name in after}
