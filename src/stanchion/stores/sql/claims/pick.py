"""Due jobs, found in the order of claims, and locked.

A search walks its queue by a loose index scan: from the highest rank in use down to the lowest. Within a rank the due
jobs are a prefix of the index. So scheduled jobs, regardless of their number and rank, cost a claim one index probe per
rank.

A claim asks for the slots of the first jobs that it meets, and parks those that must wait. After a hundred of them it
searches for jobs that need none of these slots, so it finds the next job that may run, however many waiting jobs
precede it. It also skips jobs that a rate defers, except ones that return at a promised time. At its end it defers
skipped ones from the front, so they keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from sqlalchemy import Executable, Integer, String, and_, literal_column, select, text

from stanchion.stores.records.claims import LOWEST_RANK, Claim
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.records.queues import QueueSettings, QueueShape
from stanchion.stores.records.slots import ORDER, SEMAPHORE, Slot
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import slots_of
from stanchion.stores.sql.claims.reserve import lease_of
from stanchion.stores.sql.engine.columns import QUEUED, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.engine.schema import jobs
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


Met = QueueShape | Literal["capped", "contended"]
"""The shape of a queue as a claim meets it. `capped`: limited by `max_running` alone; `contended`: slots that are full.
"""


def met_by(settings: QueueSettings) -> Met:
    """Return the shape that a claim meets in a queue with these settings."""
    return "capped" if settings.capped else settings.shape


class Alike(NamedTuple):
    """Jobs of a rank that wait for the same slot: their order key, or, without one, their first semaphore."""

    rank: int
    slot: Slot
    limits: str | None


class Past(NamedTuple):
    """The parameters that skip jobs which need a full slot."""

    patterns: Params
    keys: list[str]
    """Order keys."""


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

    def met_with_slots(self, otherwise: Met) -> Met:
        """Return the shape that a claim of slots met; `otherwise`: in a queue without limits."""
        met = otherwise if self.settings is None else met_by(self.settings)
        return otherwise if met in ("plain", "slots") else met

    @property
    def passed_rates(self) -> list[str]:
        """The rates whose jobs are skipped, except jobs that return at a promised time."""
        return [] if self.deferring or self.least <= _READ_MIN else list(self.spent)

    @property
    def past(self) -> Past | None:
        """What skips jobs that need a full slot; None while few jobs had to wait."""
        if self.least <= _READ_MIN:
            return None
        names = [slot.name for slot in self.full if slot.kind == SEMAPHORE]
        keys = [slot.name for slot in self.full if slot.kind == ORDER]
        rates = [f'%"rate":[{quoted(name)},%' for name in self.passed_rates]
        if not (names or keys or rates):
            return None
        patterns = [f"%{quoted(name)}%" for name in names[:FULL_MAX]] + rates + [_NO_PATTERN] * FULL_MAX
        return Past({f"shut{n}": patterns[n] for n in range(FULL_MAX)}, [_NO_KEY, *sorted(keys)[:_KEYS]])


RUN = 2000
"""Number of similar jobs that one transaction parks at most."""


class FindsDue(Protocol):
    """Finds and locks due jobs."""

    def due(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        """Return the ids of the next due jobs, locked, in order; jobs that are known to have to wait are skipped."""

    def alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        """Return the ids of the next due jobs that are similar to a parked one, locked."""


def skips_full(keys: str) -> str:
    """Return the condition that a job needs none of the full slots in `shut0`, `shut1`, ... and `keys` first.

    `keys`: the condition that its order key is among the full ones.
    """
    full = " AND ".join(f"limits NOT LIKE :shut{n} ESCAPE '|'" for n in range(FULL_MAX))
    free = f"(order_key IS NULL OR NOT {keys}) AND (limits IS NULL OR {full})"
    return f"(slots_held > 0 OR promised > 0 OR {free})"


class DueStatements:
    """The statements that find due jobs outside of lanes, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        queued = and_(jobs.c.queue == param("queue", String), jobs.c.lane == UNLANED, jobs.c.state == QUEUED)
        self.top_rank = select(jobs.c.rank).where(queued).order_by(jobs.c.rank.desc()).limit(1)
        self.next_rank = self.top_rank.where(jobs.c.rank < param("below", Integer))
        self.pick = (
            select(jobs.c.id)
            .where(
                *(queued, jobs.c.rank == param("at_rank", Integer), jobs.c.run_at <= dialect.now),
                *dialect.claimable,
            )
            .order_by(jobs.c.run_at, jobs.c.id)
            .limit(param("most", Integer))
            .with_for_update(skip_locked=True)
        )
        self.pick_past: Executable = self.pick.where(text(skips_full(dialect.among("order_key", "keys"))))
        asking = and_(
            jobs.c.slots_held == literal_column("0"), jobs.c.order_hold.is_(None), jobs.c.slots_hold.is_(None)
        )
        self.pick_limits: Executable = self.pick.where(
            asking, jobs.c.order_key.is_(None), jobs.c.limits == param("alike", jobs.c.limits.type)
        )
        self.pick_key: Executable = self.pick.where(asking, jobs.c.order_key == param("alike", String))


class DueJobs:
    """Finds due jobs rank by rank."""

    def __init__(self, db: Database, statements: type[DueStatements] = DueStatements) -> None:
        self._dialect = db.dialect
        self._statements = db.dialect.once(statements)

    def due(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        ids: list[str] = []
        pick: Executable = self._statements.pick
        given: Params = {"queue": queue}
        if (past := search.past) is not None:
            pick = self._statements.pick_past
            given = {**past.patterns, "keys": self._dialect.listed(past.keys), **given}
        for rank in self.ranks(run, queue, search.min_rank):
            picked = run.rows(pick, {**given, "at_rank": rank, "most": limit - len(ids)})
            ids.extend(str(row[0]) for row in picked)
            if len(ids) >= limit:
                break
        return ids

    def alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        given = {"queue": queue, "at_rank": alike.rank, "most": RUN}
        if alike.limits is not None:
            found = run.rows(self._statements.pick_limits, {**given, "alike": alike.limits})
        else:
            found = run.rows(self._statements.pick_key, {**given, "alike": alike.slot.name})
        return [str(row[0]) for row in found]

    def ranks(self, run: Runner, queue: str, lowest: int) -> Iterator[int]:
        """Yield the ranks in use down to the lowest wanted, highest first."""
        found: list[Row] = run.rows(self._statements.top_rank, {"queue": queue})
        while found and (rank := int(found[0][0])) >= lowest:
            yield rank
            found = run.rows(self._statements.next_rank, {"queue": queue, "below": rank})
