"""Poison jobs: a batch that keeps failing is halved until the job that breaks its query is alone, and dead.

    first failure     the whole batch is retried
    from the second   half of the batch goes back before each retry
    one job left      it is retried up to its `max_attempts`, then it is dead, with the text of the failure;
                      a job of many items is cut into parts instead, until one item is left
    the next single job fails in the same way      the stream stops, as the query is at fault

Only errors raised by the query itself count, and only after it started to read the batch. A driver that is killed,
loses its store or is stopped says nothing about its jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from stanchion.streams.state import StreamState

HALVED_FROM = 2
"""Number of failures of a batch from which half of its jobs return before the next try."""

LONGEST = 2000
"""Characters of a failure that are kept."""

_INNOCENT = re.compile(
    r"\b(StoreUnavailable|JobsMisfit|LeasesLost|LeaseLost|StagedJobsLost|StreamTaken|StreamStopped|ForeignCheckpoint|BatchNotKept)\b"
    r"|\bTableRefused\b"
    r"|Python worker failed to connect back|OutOfMemoryError: Java heap|SparkContext was shut down"
)
"""Errors that no job is to blame for, by their text."""

_CHANGING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+", re.IGNORECASE)


class Ended(NamedTuple):
    """How a run of a query ended: by an error with this text, or, if None, because it was stopped."""

    error: str | None


HowEnded = Callable[[str], Ended | None]
"""Returns how the run of a name ended; None if that is unknown."""


def unknown(_run: str) -> None:
    """Return None: the ends of runs are unknown."""


def blamed(state: StreamState, how_ended: HowEnded) -> str | None:
    """Return the failure of the last run that read the last batch; None if the jobs are not to blame."""
    if state.begun is None or state.begun.seq != state.reserved:
        return None
    ended = how_ended(state.begun.name)
    error = state.failure if ended is None else ended.error
    return None if error is None or _INNOCENT.search(error) else error[:LONGEST]


def alike(one: str, other: str) -> bool:
    """Return whether two failures differ only in numbers and addresses."""
    return _CHANGING.sub("#", _first_line(one)) == _CHANGING.sub("#", _first_line(other))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
