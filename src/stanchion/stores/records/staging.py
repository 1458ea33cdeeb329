"""Staged jobs: what makes them real, and what ends with it."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.records.values import ValueChange


class Finish(NamedTuple):
    """Commit all jobs of a queue that are in hand under a token, if they are still exactly so many."""

    queue: str
    token: str
    jobs: int


class Publication(NamedTuple):
    """Make staged jobs real, all or none, once.

    `attempts`: those that count, each with the number of jobs it staged; jobs of other attempts are dropped.
    `value`: what is written in the same step, and tells whether this was published before; None: the write's own
    value, of kind "write" and named like it. `finish`: what is committed in the same step.
    """

    write: str
    attempts: tuple[tuple[str, int], ...] = ()
    value: ValueChange | None = None
    finish: Finish | None = None
