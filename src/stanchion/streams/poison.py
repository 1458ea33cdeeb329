"""A batch on which its query fails again and again: it is thinned out until the job that breaks it is alone, and dead.

    fails once    the whole batch again
    twice         half of it goes back, before each further try
    alone         so often as its `max_attempts` says, then it is dead, with the text of the failure
    the next one alone fails alike     nothing more is buried: the fault is the query's

Only what the query itself raised counts, and only after it had begun to read the batch: a driver that is killed, loses
its store or is stopped says nothing about its jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from stanchion.streams.state import StreamState

HALVED_FROM = 2
"""From this failure of a batch on, half of its jobs go back before it is tried again."""

LONGEST = 2000
"""Characters of a failure that are kept."""

_INNOCENT = re.compile(
    r"\b(StoreUnavailable|LeasesLost|LeaseLost|StagedJobsLost|StreamTaken|StreamStopped|ForeignCheckpoint|BatchNotKept)\b"
    r"|Python worker failed to connect back|OutOfMemoryError: Java heap|SparkContext was shut down"
)
"""What no job is to blame for, by its text."""

_CHANGING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+", re.IGNORECASE)


class Ended(NamedTuple):
    """How a run of a query has ended: by an error of this text, or, where that is None, because it was stopped."""

    error: str | None


HowEnded = Callable[[str], Ended | None]
"""Tells by the name of a run how it has ended; None where that is not known."""


def unknown(_run: str) -> None:
    """Return None: nothing is known here of how runs end."""


def blamed(state: StreamState, how_ended: HowEnded) -> str | None:
    """Return the failure of the last run that read of the last batch; None where the jobs are not to blame."""
    if state.begun is None or state.begun.seq != state.reserved:
        return None
    ended = how_ended(state.begun.name)
    error = state.failure if ended is None else ended.error
    return None if error is None or _INNOCENT.search(error) else error[:LONGEST]


def alike(one: str, other: str) -> bool:
    """Tell whether two failures are the same but for numbers and addresses."""
    return _CHANGING.sub("#", _first_line(one)) == _CHANGING.sub("#", _first_line(other))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
