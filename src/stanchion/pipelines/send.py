"""Return values by which a station's function chooses where an item goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from stanchion.core.checks import checked_name, checked_priority, seconds_of
from stanchion.core.service_levels import BandName
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import UNCHANGED

AT_ONCE: Final = 0
"""The default delay, which needs no check: stations make a Send for each item."""


@dataclass(frozen=True, slots=True)
class Send:
    """Pass an item on to the station `to`, or write it to the table of this name.

    A list of them turns one item into several, in one atomic step.

    `item`: the new item; by default unchanged. `delay`: seconds until it is due there. `priority`: the new priority,
    or the name of its band; by default unchanged.
    """

    to: str
    item: Any = UNCHANGED
    delay: float | timedelta = AT_ONCE
    priority: int | BandName | None = None

    def __post_init__(self) -> None:
        checked_name(self.to, "the station or table of a Send")
        if self.delay is not AT_ONCE:
            seconds_of(self.delay, "delay")
        if self.priority is not None:
            checked_priority(self.priority)


def priority_of(send: Send) -> int | None:
    """Return the new priority as a number; None if it is unchanged."""
    return None if send.priority is None else checked_priority(send.priority)


def delay_of(send: Send) -> float:
    """Return the delay in seconds."""
    return seconds_of(send.delay, "delay")


def refuse_options(send: Send) -> None:
    """Raise InvalidInput for a row of a table with a delay or a priority."""
    if delay_of(send) or send.priority is not None:
        raise InvalidInput(f"a row is written to table {send.to!r} at once: leave delay and priority out of its Send")
