"""Queues and semaphores: settings, sizes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple

QueueShape = Literal["plain", "slots", "lanes", "limited"]
"""The route of a claim: plain jobs; some use slots; they are in lanes; or the queue is limited: paused, with a rate, a
bound on running jobs, or both slots and lanes."""


class SemaphoreRow(NamedTuple):
    """A semaphore: its capacity, the slots held, and the jobs waiting for one."""

    name: str
    capacity: int
    held: int = 0
    waiting: int = 0


OUTCOMES: Final = ("done", "dead", "cancelled")
"""The states of finished jobs."""

_NOT_STORED: Final = {"stored": False}


def _shown(about: str, absent: str = "") -> dict[str, dict[str, str]]:
    """Return the metadata of a setting for people: its effect, and the meaning of its absence."""
    return {"shown": {"about": about, "absent": absent}}


def _restrains(why: str, *, held: bool = False) -> dict[str, dict[str, object]]:
    """Return the metadata of a setting for which jobs have to be claimed from their queue.

    `why`: a clause without its subject. `held`: a job that runs takes the place of another, until it leaves the queue.
    """
    return {"restraint": {"restrains": why, "held": held}}


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The stored settings of a queue; rates in jobs started per second, times in seconds."""

    name: str
    paused: bool = field(
        default=False, metadata=_shown("No job starts; running ones finish.") | _restrains("is paused")
    )
    """True while no job of the queue may start."""
    max_rate: float | None = field(
        default=None,
        metadata=_shown(
            "Jobs started a second, by all processes together. Jobs that are due wait for their second.", "no limit"
        )
        | _restrains("has max_rate"),
    )
    """Maximum number of jobs started per second, by all workers together."""
    max_running: int | None = field(
        default=None,
        metadata=_shown("Jobs that run at the same time, in all processes. Running ones finish.", "no limit")
        | _restrains("has max_running", held=True),
    )
    """Maximum number of jobs that run at a time."""
    lanes: int = field(
        default=1,
        metadata=_shown("Lines of jobs by tenant; workers take from them in turn.") | _restrains("has lanes"),
    )
    """Number of lanes."""
    lanes_per_tenant: int = field(default=1, metadata=_shown("Lanes over which the jobs of one tenant are spread."))
    """Number of lanes that the jobs of one tenant share."""
    history_ttl: float = field(
        default=7 * 86_400.0,
        metadata=_shown(
            "How long finished jobs are kept; it replaces the times by outcome. A shorter time soon deletes older jobs "
            "for good."
        ),
    )
    """Longest retention of finished jobs in seconds; 0 keeps none."""
    dead_letter: str | None = field(
        default=None,
        metadata=_shown(
            "The queue that receives jobs when they die; without one they stay in history.", "none: kept as dead"
        ),
    )
    """Queue for dead jobs; None keeps them in history."""
    lease: float = field(
        default=30.0, metadata=_shown("How long a consumer without heartbeats holds a job, from the next reservation.")
    )
    """Seconds that a reservation without heartbeats is valid."""
    uses_lanes: bool = field(default=False, compare=False)
    """True once the queue has several lanes or a job in a lane; upkeep resets it."""
    uses_slots: bool = field(default=False, compare=False)
    """True once a job of the queue has a semaphore, an order key or a rate; upkeep resets it."""
    expires: float | None = field(
        default=None,
        metadata=_shown("Time without use after which the queue is deleted, with its history.", "never")
        | _restrains("expires when unused"),
    )
    """Seconds without a push, a reservation or an end after which the queue is removed; None: never."""
    expires_with_jobs: bool = field(default=False, metadata=_shown("It is also deleted with the jobs in it."))
    """True if expiry also removes a queue that holds live jobs."""
    timeout: float | None = field(
        default=None, metadata=_shown("Longest run of an attempt, for jobs whose task names none.", "none of its own")
    )
    """Seconds that one attempt may run, for jobs that name no time-out and whose task names none."""
    ordered: bool = field(
        default=False, metadata=_shown("One job at a time, in order.") | _restrains("is ordered", held=True)
    )
    """One job at a time, and none before the one begun last has left the queue; goes with `max_running=1`."""
    ordered_by: Literal["tenant"] | None = field(
        default=None,
        metadata=_shown("What becomes the order key of jobs without one.")
        | _restrains("is ordered by tenant", held=True),
    )
    """What becomes the order key of jobs that enter the queue without one."""
    jobs_expire: float | None = field(
        default=None,
        metadata=_shown("Time after its push until a job is cancelled, unless an attempt has begun by then.", "never"),
    )
    """Seconds after their push until jobs expire that do not say when."""
    history_ttl_done: float | None = field(
        default=None,
        metadata=_shown("How long jobs that are done are kept, if that is less than history_ttl.", "as history_ttl"),
    )
    """Retention of done jobs in seconds, if it is less than `history_ttl`."""
    history_ttl_dead: float | None = field(
        default=None,
        metadata=_shown("How long dead jobs are kept, if that is less than history_ttl.", "as history_ttl"),
    )
    """Retention of dead jobs in seconds, if it is less than `history_ttl`."""
    history_ttl_cancelled: float | None = field(
        default=None,
        metadata=_shown("How long cancelled jobs are kept, if that is less than history_ttl.", "as history_ttl"),
    )
    """Retention of cancelled jobs in seconds, if it is less than `history_ttl`."""
    history_max: int | None = field(
        default=None,
        metadata=_shown("Finished jobs that are kept; upkeep deletes the oldest beyond it for good.", "any number"),
    )
    """Maximum number of finished jobs that upkeep leaves in history; of each partition."""
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The settings that the code declared last, which may not be in force; see `context.queues.declared_settings`."""
    lanes_seen: Mapping[str, int] = field(default_factory=dict, compare=False)
    """By a number of lanes that code declares: when a process that declares it was last seen; 0: all are gone."""
    partitioned: bool = field(default=False, compare=False)
    """True once the queue has had partitions."""
    schema_after: int | None = field(default=None, compare=False)
    """The version of the stored schema after which one of this queue is in force; None: it never had one."""
    partitions: int = field(
        default=1,
        metadata=_NOT_STORED | _shown("Physical queues over which new jobs are spread.") | _restrains("has partitions"),
    )
    """The physical queues over which new jobs are spread; see `stanchion.partitions`, which stores it elsewhere."""
    key_partitions: int = field(default=0, metadata=_NOT_STORED)
    """The partitions over which keys are spread, fixed when the queue is first partitioned; 0: keys stay in the queue
    itself."""

    def kept_for(self, outcome: str) -> float:
        """Return the retention of finished jobs of this state, in seconds."""
        own: float | None = getattr(self, f"history_ttl_{outcome}")
        return self.history_ttl if own is None else min(own, self.history_ttl)

    @property
    def shorter_ttls(self) -> dict[str, float]:
        """Retention in seconds of the states whose jobs are kept for less than `history_ttl`."""
        return {one: ttl for one in OUTCOMES if (ttl := self.kept_for(one)) < self.history_ttl}

    @property
    def trims(self) -> bool:
        """True if upkeep deletes finished jobs before `history_ttl`."""
        return self.history_max is not None or bool(self.shorter_ttls)

    @property
    def shortest_ttl(self) -> float:
        """The retention in seconds of the jobs that are kept for the shortest time."""
        return min(map(self.kept_for, OUTCOMES))

    @property
    def kept_at_least(self) -> float:
        """Minimum retention of a finished job, in seconds; 0 if their number is limited."""
        return self.shortest_ttl if self.history_max is None else 0.0

    @property
    def limited(self) -> bool:
        """True if a claim must check more than the jobs."""
        return self.paused or self.uses_lanes or self.bounded

    @property
    def bounded(self) -> bool:
        """True if the queue limits how many jobs start or run at a time."""
        return self.ordered or self.max_rate is not None or self.max_running is not None

    @property
    def capped(self) -> bool:
        """True if `max_running` is the only limit that a claim must check."""
        others = self.paused or self.ordered or self.uses_lanes or self.uses_slots or self.max_rate is not None
        return self.max_running is not None and not others

    @property
    def running_max(self) -> int | None:
        """The number of jobs that may run at a time; None: any."""
        return 1 if self.ordered else self.max_running

    @property
    def shape(self) -> QueueShape:
        """The route that claims take in this queue."""
        if self.paused or self.bounded or (self.uses_lanes and self.uses_slots):
            return "limited"
        if self.uses_lanes:
            return "lanes"
        return "slots" if self.uses_slots else "plain"


STORED_SETTINGS: Final = tuple(one.name for one in fields(QueueSettings) if one.metadata.get("stored", True))
"""The fields that a store keeps with the queue, its name first."""


class Sizes(NamedTuple):
    """Numbers of live jobs of a queue."""

    total: int = 0
    ready: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0

    def plus(self, other: Sizes) -> Sizes:
        """Return the sums of these numbers and others."""
        return Sizes(*map(sum, zip(self, other, strict=True)))


EMPTY: Final = Sizes()
"""The sizes of a queue without live jobs."""


class Counts(NamedTuple):
    """Events of a queue since it was made; a duplicate does not count as a push."""

    pushed: int = 0
    popped: int = 0
    reserved: int = 0
    committed: int = 0
    rolled_back: int = 0
    moved: int = 0
    buried: int = 0
    cancelled: int = 0
    expired: int = 0
    lapsed: int = 0


class Head(NamedTuple):
    """The first queued job of a rank in a lane. `due_in`: microseconds until it is due by the store's clock, 0 or less
    if it is due."""

    lane: int
    rank: int
    run_at: int
    due_in: int


Stat = Literal["states", "items", "totals", "next_due", "heads", "chunks"]
"""A field of QueueStats."""


class QueueStats(NamedTuple):
    """The figures of a queue; fields that were not requested have their defaults.

    `states`: its live jobs. `items`: the items of these; a job that carries no chunk is one item. `chunks`: the number
    of live jobs that carry chunks, which is read without the others.
    `next_due`: the earliest `run_at` of its queued jobs, or the end of a lease that has expired, regardless of pauses
    and limits; None without such jobs. `heads`: the first queued job of each rank in each lane, in any order, also
    regardless of these.
    """

    states: Sizes = Sizes()
    totals: Counts = Counts()
    next_due: int | None = None
    heads: tuple[Head, ...] = ()
    items: Sizes = Sizes()
    chunks: int = 0
