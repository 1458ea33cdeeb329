"""Statistics of queues on MariaDB and MySQL.

A value of another table can't start an index range there, only match an entry. So lanes are queried by number, and the
ranks in use from the highest downward, one statement per level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from sqlalchemy import TextClause, text

from stanchion.stores.mariadb.statements import NOW, TEXT, given
from stanchion.stores.records import queues as records
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.claims.lanes import LAST_LANE
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.reading.stats import Stats, expired_leases

T = TypeVar("T")

ARMS_MAX = 64
"""Number of lanes that one statement queries at most."""

_ALL = 2**63 - 1
_ROOT = int((LAST_LANE - UNLANED) ** 0.5) + 1
_LANE = f"high.n * {_ROOT} + low.n + {UNLANED}"


class Head(NamedTuple):
    """A rank in use in a lane of a queue, and when its first job is due."""

    queue: str
    lane: int
    rank: int
    run_at: int
    lowest: int
    """The lowest rank in use in the lane."""
    now: int
    """The clock when the lanes in use were read."""


class MariaDBStats(Stats):
    """Counts by lanes with known numbers."""

    def next_due(self, run: Runner, queues: Collection[str]) -> dict[str, int]:
        rows = run.rows(_DUES, {"queues": _listed(queues)})
        found = {queue: int(lease_until) for queue, _, rank, lease_until, *_ in rows if rank is None}
        for head in self._each_rank(run, _heads_in(rows)):
            found[head.queue] = min(head.run_at, found.get(head.queue, head.run_at))
        return found

    def heads(self, run: Runner, queues: Collection[str]) -> dict[str, list[records.Head]]:
        found: dict[str, list[records.Head]] = {}
        for queue, lane, rank, run_at, _, now in self._each_rank(run, self._tops(run, queues)):
            found.setdefault(queue, []).append(records.Head(lane, rank, run_at, run_at - now))
        return found

    def _each_rank(self, run: Runner, heads: list[Head]) -> Iterator[Head]:
        """Yield the heads of all ranks in use, from the highest of each lane, `heads`, downward."""
        while heads:
            yield from heads
            lower = _by_arms(run, _lower_heads, [head for head in heads if head.rank > head.lowest], _below)
            heads = [head._replace(rank=int(rank), run_at=int(run_at)) for head, rank, run_at in lower]

    def depths(self, run: Runner, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        wanted = [head.lane for head in self._tops(run, [queue])] if lanes is None else lanes
        given = {"queue": queue, "most": at_most}
        counted = _by_arms(run, _depths, wanted, lambda n, lane: {**given, f"lane{n}": lane})
        return {lane: int(depth) for lane, depth in counted if depth}

    def _tops(self, run: Runner, queues: Collection[str]) -> list[Head]:
        """Return the highest head of each lane in use of these queues."""
        return _heads_in(run.rows(_HEADS, {"queues": _listed(queues)}))


def _listed(queues: Collection[str]) -> str:
    return json.dumps(sorted(set(queues)), ensure_ascii=False)


def _heads_in(rows: Sequence[Row]) -> list[Head]:
    return [
        Head(queue, int(lane), int(rank), int(run_at), int(lowest), int(now))
        for queue, lane, rank, run_at, lowest, now in rows
        if run_at is not None and lowest is not None
    ]


_QUEUED = "stanchion_jobs AS job FORCE INDEX (stanchion_jobs_ready) WHERE job.state = 'queued'"

_TOPS = f"""
    -- The highest rank in use in each lane of these queues, when its first job is due, and the lowest rank.
    WITH RECURSIVE few (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM few WHERE n < {_ROOT - 1}
    ), known (queue, last_lane) AS (
        SELECT given.value, (SELECT job.lane FROM {_QUEUED} AND job.queue = given.value ORDER BY job.lane DESC LIMIT 1)
        FROM {given(f"value VARCHAR(420) {TEXT} PATH '$'", "queues")}
    ), tops (queue, lane, `rank`) AS (
        SELECT known.queue, {_LANE}, (
            SELECT job.rank FROM {_QUEUED} AND job.queue = known.queue AND job.lane = {_LANE}
            ORDER BY job.rank DESC LIMIT 1
        )
        FROM known STRAIGHT_JOIN few AS high ON high.n * {_ROOT} + {UNLANED} <= known.last_lane
            STRAIGHT_JOIN few AS low ON low.n + {UNLANED} <= known.last_lane  -- for most queues there is one lane only
        WHERE {_LANE} <= known.last_lane
        LIMIT {_ALL}  -- keeps the optimizer from merging this into the outer query, which would then probe twice
    )
    SELECT tops.queue, tops.lane, tops.rank, (
        SELECT job.run_at FROM {_QUEUED} AND job.queue = tops.queue AND job.lane = tops.lane
            AND job.rank = tops.rank
        ORDER BY job.run_at LIMIT 1
    ), (
        SELECT job.rank FROM {_QUEUED} AND job.queue = tops.queue AND job.lane = tops.lane ORDER BY job.rank LIMIT 1
    ), {NOW}
    FROM tops WHERE tops.rank IS NOT NULL
"""
_HEADS = text(_TOPS)
_DUES = text(f"""{_TOPS} UNION ALL
    SELECT expired.queue, NULL, NULL, expired.lease_until, NULL, NULL
    FROM ({expired_leases(NOW, "FORCE INDEX (stanchion_jobs_leased)")}) AS expired
    WHERE expired.queue IN (SELECT value FROM {given(f"value VARCHAR(420) {TEXT} PATH '$'", "queues")})
""")
"""The same, and the leases that have expired."""


@cache
def _lower_heads(arms: int) -> TextClause:
    """Return the statement for the next lower rank in use in the lane of each arm, and when its first job is due."""
    return _union(
        arms,
        lambda n: (
            f"""
            SELECT {n}, job.rank, job.run_at FROM {_QUEUED} AND job.queue = :queue{n} AND job.lane = :lane{n}
                AND job.rank = (
                    SELECT job.rank FROM {_QUEUED} AND job.queue = :queue{n} AND job.lane = :lane{n}
                        AND job.rank < :below{n}
                    ORDER BY job.rank DESC LIMIT 1
                )
            ORDER BY job.run_at LIMIT 1
        """
        ),
    )


@cache
def _depths(arms: int) -> TextClause:
    """Return the statement for the number of queued jobs in the lane of each arm, up to `most`."""
    return _union(
        arms,
        lambda n: (
            f"""
            SELECT {n}, count(*) FROM (
                SELECT 1 FROM {_QUEUED} AND job.queue = :queue AND job.lane = :lane{n} LIMIT :most
            ) AS found
        """
        ),
    )


def _union(arms: int, arm: Callable[[int], str]) -> TextClause:
    return text(" UNION ALL ".join(f"({arm(n)})" for n in range(arms)))


def _by_arms(
    run: Runner, statement: Callable[[int], TextClause], items: Sequence[T], params: Callable[[int, T], Params]
) -> Iterator[Row]:
    """Query as many items as a statement has arms; yield each item with its answers."""
    for start in range(0, len(items), ARMS_MAX):
        some = items[start : start + ARMS_MAX]
        given = {name: value for n, item in enumerate(some) for name, value in params(n, item).items()}
        for arm, *answer in run.rows(statement(len(some)), given):
            yield some[arm], *answer


def _below(n: int, head: Head) -> Params:
    return {f"queue{n}": head.queue, f"lane{n}": head.lane, f"below{n}": head.rank}
