"""Due jobs, found in the order of claims, and locked.

A search walks its queue by a loose index scan: from the highest rank in use down to the lowest. Within a rank the due
jobs are a prefix of the index. So scheduled jobs, regardless of their number and rank, cost a claim one index probe per
rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from sqlalchemy import Executable, Integer, String, and_, literal_column, select, text

from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.claims.search import FULL_MAX, Alike, Search
from stanchion.stores.sql.engine.columns import QUEUED, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.engine.schema import jobs

RUN = 2000
"""Number of similar jobs that one transaction parks at most."""


class FindsDue(Protocol):
    """Finds and locks due jobs."""

    def due(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        """Return the ids of the next due jobs, locked, in order; jobs that are known to have to wait are skipped."""

    def alike(self, run: Runner, queue: str, alike: Alike) -> list[str]:
        """Return the ids of the next due jobs that are similar to a parked one, locked."""


def skips_full(dialect: Dialect) -> str:
    """Return the condition that a job needs none of the full slots in `shut0`, `shut1`, ... and `keys` first."""
    full = " AND ".join(f"limits NOT LIKE :shut{n} ESCAPE '|'" for n in range(FULL_MAX))
    keys = dialect.among("order_key", "keys")
    free = f"(order_key IS NULL OR NOT {keys}) AND (limits IS NULL OR {full})"
    return f"(slots_held > 0 OR waits_since IS NOT NULL OR {free})"


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
        self.pick_past: Executable = self.pick.where(text(skips_full(dialect)))
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
            pick, given = self._statements.pick_past, {**past, "keys": self._dialect.listed(past["keys"]), **given}
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
