"""Staged jobs: their publication, and the outcomes committed with it."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.records.outcomes import Ending
from stanchion.stores.records.values import ValueChange


class Finish(NamedTuple):
    """End all jobs of a queue that are reserved under a token, if their number is still `jobs`.

    They are committed, except for those in `ends`, which has their outcomes: of chunks whose items end differently.
    """

    queue: str
    token: str
    jobs: int
    ends: tuple[Ending, ...] = ()


class Publication(NamedTuple):
    """Publish staged jobs, all or none, once.

    `attempts`: attempts to publish, each with the number of jobs it staged; jobs of other attempts are dropped.
    `value`: written in the same step; it records that the write was published. None: the write's default value, of kind
    "write" and the same name. `finish`: ended in the same step.
    """

    write: str
    attempts: tuple[tuple[str, int], ...] = ()
    value: ValueChange | None = None
    finish: Finish | None = None
