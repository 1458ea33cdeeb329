"""Queues and semaphores: settings, sizes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


class SemaphoreRow(NamedTuple):
    """A semaphore: what it may give, and how much of it is held and waited for."""

    name: str
    capacity: int
    held: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The stored settings of a queue; rates in jobs started per second, times in seconds."""

    name: str
    paused: bool = False
    max_rate: float | None = None
    max_running: int | None = None
    lanes: int = 1
    lanes_per_tenant: int = 1
    history_ttl: float = 7 * 86_400.0
    dead_letter: str | None = None
    lease: float = 30.0
    laned: bool = False
    """True once it had more than one lane: its jobs may be in any."""
    expires: float | None = None
    """It is removed when nobody has pushed, reserved or finished in it for so long."""
    expires_with_jobs: bool = False
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the code declared last, which need not be in force; see `stanchion.context.declared`."""

    @property
    def throttled(self) -> bool:
        """True when a claim must look at more than the jobs."""
        return self.paused or self.laned or self.max_rate is not None or self.max_running is not None


class Sizes(NamedTuple):
    """Live jobs of a queue."""

    total: int = 0
    ready: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0


class Counts(NamedTuple):
    """What happened in a queue since it was made; a duplicate is not a push."""

    pushed: int = 0
    popped: int = 0
    reserved: int = 0
    committed: int = 0
    rolled_back: int = 0
    moved: int = 0
    buried: int = 0
    cancelled: int = 0
    expired: int = 0


Stat = Literal["states", "totals", "next_due"]
"""A field of QueueStats."""


class QueueStats(NamedTuple):
    """The figures of a queue; a field that was not asked for has its default.

    `next_due`: the earliest `run_at` of its queued jobs, also where a pause or a limit hinders them; None without any.
    """

    states: Sizes = Sizes()
    totals: Counts = Counts()
    next_due: int | None = None
