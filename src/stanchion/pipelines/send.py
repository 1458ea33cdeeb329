"""Return values by which a station's function chooses where an item goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from stanchion.core.checks import checked_name, checked_priority, seconds_of
from stanchion.core.service_levels import BandName
from stanchion.jobs.outcome import UNCHANGED


@dataclass(frozen=True, slots=True)
class Send:
    """Pass an item on to the station `to`. A list of them turns one item into several, in one atomic step.

    `item`: the new item; by default unchanged. `delay`: seconds until it is due there. `priority`: the new priority,
    or the name of its band; by default unchanged.
    """

    to: str
    item: Any = UNCHANGED
    delay: float | timedelta = 0
    priority: int | BandName | None = None

    def __post_init__(self) -> None:
        checked_name(self.to, "the station of a Send")
        seconds_of(self.delay, "delay")
        if self.priority is not None:
            checked_priority(self.priority)


def priority_of(send: Send) -> int | None:
    """Return the new priority as a number; None if it is unchanged."""
    return None if send.priority is None else checked_priority(send.priority)


def delay_of(send: Send) -> float:
    """Return the delay in seconds."""
    return seconds_of(send.delay, "delay")
