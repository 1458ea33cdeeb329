"""Reading: jobs by id and by conditions, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.records.jobs import QUEUED, JobRow
from stanchion.stores.records.query import Horizon, Page, Query
from stanchion.stores.records.queues import Counts, Head, QueueStats, Sizes, Stat
from stanchion.stores.rules.lifecycle.jobs import stored_state_of
from stanchion.stores.rules.query import (
    checked,
    counts_states,
    cut,
    evenly,
    met,
    page_of,
    queues_of,
    stats_in,
)


class Queries:
    """Reads jobs, and changes nothing."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return the jobs that are live or in history, by id."""
        return {row.id: row for row in map(self._jobs.find, ids) if row is not None}

    def select(self, query: Query) -> Page:
        """Return a page of the jobs that meet the conditions."""
        page = page_of(self._selected(query), query)
        # The caller holds the lock, so no other step is under way.
        return page._replace(horizon=Horizon(self._jobs.now(), frozenset())) if query.horizon else page

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query into up to `parts` disjoint queries of about equal size."""
        ids = sorted(row.id for row in self._selected(query))
        return cut(query, evenly(ids, parts)) if ids else [query]

    def _selected(self, query: Query) -> Iterator[JobRow]:
        now = self._jobs.now()
        queues = [self._jobs.known(name) for name in queues_of(checked(query), self._jobs.queues)]
        kept = (rows for queue in queues for rows in (queue.live, queue.history))
        return (row for rows in kept for row in rows.values() if met(row, query, now))

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        now = self._jobs.now()
        return {queue: self._stats_of(queue, fields, now) for queue in queues}

    def _stats_of(self, queue: str, fields: Collection[Stat], now: int) -> QueueStats:
        known = self._jobs.known(queue)
        live = known.live.values()
        states, more = Counter[str](), Counter[str]()
        for row in live if counts_states(fields) else ():
            state = stored_state_of(row, now).value
            states[state] += 1
            if row.items is not None:
                more[state] += row.items - 1
        dues = (at for row in live if (at := _due_at(row, now)) is not None) if "next_due" in fields else ()
        return stats_in(_sizes(states), _sizes(more), fields)._replace(
            totals=Counts(**known.counts) if "totals" in fields else Counts(),
            next_due=min(dues, default=None),
            heads=_heads(live, now) if "heads" in fields else (),
            chunks=sum(row.items is not None for row in live) if "chunks" in fields else 0,
        )

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        depths = Counter(row.lane for row in self._jobs.known(queue).live.values() if row.state == QUEUED)
        return {lane: min(depth, at_most) for lane, depth in depths.items() if lanes is None or lane in lanes}


def _sizes(by_state: Counter[str]) -> Sizes:
    return Sizes(total=by_state.total(), **by_state)


def _due_at(row: JobRow, now: int) -> int | None:
    """Return when a queued job is due, or since when a lease has expired; None for other jobs."""
    if row.state == QUEUED:
        return row.run_at
    return row.lease_until if row.lease_until is not None and row.lease_until <= now else None


def _heads(live: Iterable[JobRow], now: int) -> tuple[Head, ...]:
    """Return the first queued job of each rank in each lane."""
    firsts: dict[tuple[int, int], int] = {}
    for row in live:
        if row.state == QUEUED:
            place = row.lane, row.rank
            firsts[place] = min(row.run_at, firsts.get(place, row.run_at))
    return tuple(Head(*place, run_at, run_at - now) for place, run_at in firsts.items())
