"""Jobs: new ones, stored ones, and their states. Times are microseconds since 1970, by the clock of the store."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

SECOND = 1_000_000
"""One second in the unit of every stored time."""

UNLANED = 0
"""Stored as the lane of jobs that came while their queue had no lanes; lane n is stored as n + 1."""

QUEUED: Literal["queued"] = "queued"
"""The stored state of jobs that are scheduled or ready; `run_at` against the store's clock tells which."""


class JobState(StrEnum):
    """Where a job is in its life; the first four are live, the others final."""

    SCHEDULED = "scheduled"
    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """True for a job that is in history."""
        return self in _FINAL


_FINAL = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})


class NewJob(NamedTuple):
    """A job to store. Due at `run_at`, or `delay` seconds from the store's now, or now.

    One that `waits_for` a gate is stored as waiting, until the gate opens.
    """

    id: str
    queue: str
    payload: str
    task: str | None = None
    priority: int = 0
    run_at: int | None = None
    delay: float | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    on_duplicate: str = "return"
    order_key: str | None = None
    limits: str | None = None
    flow: str | None = None
    origin: str | None = None
    max_attempts: int = 25
    timeout: float | None = None
    lane: int = UNLANED
    waits_for: str | None = None


class Pushed(NamedTuple):
    """What became of a NewJob. For a duplicate, `id` is that of the live job which has the key."""

    id: str
    run_at: int
    enqueued_at: int
    duplicate: bool = False


class JobRow(NamedTuple):
    """A whole job as stored, live or finished.

    `held`: how many of its gates it holds, in their order; `permit`: the token under which it took them, or two, see
    `permits_of`; `waits_for`, `waits_since`: the gate that it is parked at, and since when; of a job that its rate has
    deferred, `waits_since` tells of `gates.promise_of`.
    """

    id: str
    queue: str
    lane: int
    state: str
    priority: int
    run_at: int
    enqueued_at: int
    payload: str
    task: str | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    order_key: str | None = None
    limits: str | None = None
    flow: str | None = None
    origin: str | None = None
    attempts: int = 0
    failures: int = 0
    max_attempts: int = 25
    timeout: float | None = None
    errors: str | None = None
    progress: float | None = None
    token: str | None = None
    worker: str | None = None
    lease_until: int | None = None
    started_at: int | None = None
    cancel_requested: bool = False
    held: int = 0
    permit: str | None = None
    waits_for: str | None = None
    waits_since: int | None = None
    finished_at: int | None = None
    result: str | None = None


class Redriven(StrEnum):
    """What became of a job that was to be retried."""

    READY = "ready"
    MISSING = "missing"
    DONE = "done"
    RUNNING = "running"
    KEY_TAKEN = "key taken"
