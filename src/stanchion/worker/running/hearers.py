"""The functions that runners call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.worker.running.attempt import Ends

Ended = Callable[[JobRow, float, Outcome | None], None]
"""Gets the job of an attempt, the seconds that it ran, and its outcome; None: the task settled its job itself."""


class Hearers(NamedTuple):
    """The functions that runners call."""

    finish: Callable[[Ends], None]
    """Gets the end of every added job, exactly once."""
    room: Callable[[], None]
    """Called when a job has ended and at most `low_water` jobs are left in the buffer."""
    stuck: Callable[[], None]
    """Called after an attempt was abandoned whose thread can't be stopped."""
    ends: Sequence[Ended] = ()
    """Get the end of every attempt, before `finish` does."""
    ran: Callable[[tuple[str, int, float]], None] = lambda _: None
    """Gets the queue, the priority and the run time in seconds of every attempt, before `ends` do."""
    holds: Callable[[JobRow, float], bool] = lambda _row, _claimed_at: True
    """Returns whether a job claimed at that time is still held; one that is not returns to its queue."""
    begins: Callable[[float | None], None] | None = None
    """Gets the time-out of each attempt, before it begins."""
    serves: Callable[[str], bool] = lambda _queue: False
    """Returns whether the worker takes the jobs of a queue; an item passes to no other queue in memory."""
