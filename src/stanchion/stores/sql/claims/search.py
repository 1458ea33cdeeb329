"""The state that a claim keeps between its transactions about jobs that had to wait.

A claim asks for the slots of the first jobs that it meets, and parks those that must wait. After a hundred of them it
searches for jobs that need none of these slots, so it finds the next job that may run, however many waiting jobs
precede it. It also skips jobs that a rate defers, except ones that return at a promised time. Later claims defer
the skipped ones from the front, so they keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stanchion.stores.records.claims import LOWEST_RANK, Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot
from stanchion.stores.rules.limits import limits_in
from stanchion.stores.rules.slots import slots_of
from stanchion.stores.sql.claims.reservations import lease_of
from stanchion.stores.sql.engine.runner import Params, Row
from stanchion.stores.sql.limits.semaphores import quoted

AT_ONCE = 1000
"""Number of jobs that a claim asks for in one transaction at most."""

FULL_MAX = 4
"""Number of full semaphores that a claim skips at most."""

_READ_MIN = 100
"""Number of jobs read together at least, once one was parked: few of them may be allowed to run."""

_SECONDS = 2.0
"""Maximum seconds that one claim skips waiting jobs; at most half of its lease."""

_AHEAD, _FEW = 3, 30
"""In a queue whose jobs use slots, `_AHEAD` times the wanted number is read together, up to `_FEW`."""

_KEYS = 100
_NO_PATTERN, _NO_KEY = "", "-" * 201
"""Placeholders that match no limits of a job, and no order key."""


class Alike(NamedTuple):
    """Jobs of a rank that wait for the same slot: their order key, or, without one, their first semaphore."""

    rank: int
    slot: Slot
    limits: str | None


@dataclass(slots=True)
class Search:
    """The state that a claim keeps between its transactions."""

    min_rank: int = LOWEST_RANK
    """The lowest rank to search."""
    least: int = 0
    """Number of jobs read together at least."""
    at: int | None = None
    """When the first job asked for slots; all jobs that one claim parks wait since then, so in the order of their ids.
    """
    seconds: float = _SECONDS
    """Seconds that the claim may continue."""
    skipping: float = 0.0
    """Seconds spent on skipping jobs that have to wait."""
    full: dict[Slot, None] = field(default_factory=dict)
    """Slots that some jobs had to wait for."""
    asking: dict[str, Row] = field(default_factory=dict)
    """Rows read when the jobs were locked, with the columns of `ASKING`."""
    runs: dict[Alike, None] = field(default_factory=dict)
    """The kinds of jobs that had to wait."""
    spent: dict[str, None] = field(default_factory=dict)
    """Rates that had no start left for some jobs."""
    met_slots: bool = False
    """Some jobs use slots, whatever the row of the queue says."""
    settings: QueueSettings | None = None
    """The settings of the queue, as the last transaction read them."""
    locks_queue: bool = False
    """The queue was limited at the last claim, so its row is locked at the first read."""
    deferring: bool = False
    """Jobs of spent rates are deferred, not skipped; constant during a transaction."""

    def picks(self, limit: int, *, uses_slots: bool) -> int:
        """Return how many jobs to read together: some may have to wait, and reading more takes another transaction."""
        return max(limit, self.least, min(_AHEAD * limit, _FEW) if uses_slots else 0)

    def within(self, claim: Claim, settings: QueueSettings) -> None:
        """Limit a claim without a worker to half of its lease."""
        if claim.worker is None:
            self.seconds = min(self.seconds, lease_of(claim, settings) / 2)

    def parked(self, rows: Sequence[tuple[JobRow, JobRow]]) -> None:
        """Record jobs that had to wait, before and after the change."""
        self.least = min(AT_ONCE, max(_READ_MIN, 2 * self.least))
        for before, after in rows:
            slot = after.waits_for
            if slot is None and (rate := limits_in(before.limits).rate) is not None:
                self.spent[rate.name] = None
            if slot is None or before.slots_held:
                continue
            self.full[slot] = None
            if slot == slots_of(before)[0] and limits_in(before.limits).rate is None:
                self.runs[Alike(before.rank, slot, before.limits if slot.kind == SEMAPHORE else None)] = None

    @property
    def passed_rates(self) -> list[str]:
        """The rates whose jobs are skipped, except jobs that return at a promised time."""
        return [] if self.deferring or self.least <= _READ_MIN else list(self.spent)

    @property
    def past(self) -> Params | None:
        """The parameters that skip jobs which need a full slot; None while few jobs had to wait."""
        if self.least <= _READ_MIN:
            return None
        names = [slot.name for slot in self.full if slot.kind == SEMAPHORE]
        keys = [slot.name for slot in self.full if slot.kind == ORDER]
        rates = [f'%"rate":[{quoted(name)},%' for name in self.passed_rates]
        if not (names or keys or rates):
            return None
        patterns = [f"%{quoted(name)}%" for name in names[:FULL_MAX]] + rates + [_NO_PATTERN] * FULL_MAX
        return {
            **{f"shut{n}": patterns[n] for n in range(FULL_MAX)},
            "keys": [_NO_KEY, *sorted(keys)[:_KEYS]],
        }
