"""The figures of queues on MariaDB and MySQL.

There a value of another table can't begin a range of an index, only be equal to an entry. So lanes are asked for by
their numbers, and the priorities in use from the highest down, a statement for each level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import TextClause, text

from stanchion.stores.mariadb.statements import TEXT, given
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.lane_statements import LAST_LANE
from stanchion.stores.sql.stats import Stats

T = TypeVar("T")

ARMS_MAX = 64
"""So many lanes are asked in one statement."""

_ALL = 2**63 - 1
_ROOT = int(LAST_LANE**0.5) + 1


class Head(NamedTuple):
    """A priority in use in a lane of a queue, and when the first job of it is due."""

    queue: str
    lane: int
    priority: int
    run_at: int


class MariaDBStats(Stats):
    """Counts by lanes whose numbers are known."""

    def next_due(self, run: Runner, queues: Collection[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        heads = self._tops(run, queues)
        while heads:
            for head in heads:
                found[head.queue] = min(head.run_at, found.get(head.queue, head.run_at))
            heads = [Head(head.queue, head.lane, *lower) for head, *lower in _by_arms(run, _lower_heads, heads, _below)]
        return found

    def depths(self, run: Runner, queue: str, lanes: Sequence[int] | None, at_most: int) -> dict[int, int]:
        wanted = [head.lane for head in self._tops(run, [queue])] if lanes is None else lanes
        given = {"queue": queue, "most": at_most}
        counted = _by_arms(run, _depths, wanted, lambda n, lane: {**given, f"lane{n}": lane})
        return {lane: int(depth) for lane, depth in counted if depth}

    def _tops(self, run: Runner, queues: Collection[str]) -> list[Head]:
        """Return the highest head of each lane of these queues that has one."""
        rows = run.rows(_TOPS, {"queues": json.dumps(sorted(set(queues)), ensure_ascii=False)})
        return [Head(queue, int(lane), priority, int(run_at)) for queue, lane, priority, run_at in rows if run_at]


_LINE = "stanchion_jobs AS job FORCE INDEX (stanchion_jobs_line) WHERE job.state = 'queued'"

_TOPS = text(f"""
    -- The highest priority in use in each lane of these queues, and when the first job of it is due.
    WITH RECURSIVE few (n) AS (
        SELECT 0 UNION ALL SELECT n + 1 FROM few WHERE n < {_ROOT - 1}
    ), known (queue, last_lane) AS (
        SELECT given.value, (SELECT job.lane FROM {_LINE} AND job.queue = given.value ORDER BY job.lane DESC LIMIT 1)
        FROM {given(f"value VARCHAR(420) {TEXT} PATH '$'", "queues")}
    ), tops (queue, lane, priority) AS (
        SELECT known.queue, high.n * {_ROOT} + low.n, (
            SELECT job.priority FROM {_LINE} AND job.queue = known.queue AND job.lane = high.n * {_ROOT} + low.n
            ORDER BY job.priority DESC LIMIT 1
        )
        FROM known JOIN few AS high JOIN few AS low
        WHERE high.n * {_ROOT} + low.n <= known.last_lane
        LIMIT {_ALL}  -- keeps the optimizer from merging this into the query below, which would look up each twice
    )
    SELECT tops.queue, tops.lane, tops.priority, (
        SELECT job.run_at FROM {_LINE} AND job.queue = tops.queue AND job.lane = tops.lane
            AND job.priority = tops.priority
        ORDER BY job.run_at LIMIT 1
    )
    FROM tops WHERE tops.priority IS NOT NULL
""")


@cache
def _lower_heads(arms: int) -> TextClause:
    """For each arm, the next lower priority in use in its lane, and when the first job of it is due."""
    return _union(
        arms,
        lambda n: (
            f"""
            SELECT {n}, job.priority, job.run_at FROM {_LINE} AND job.queue = :queue{n} AND job.lane = :lane{n}
                AND job.priority = (
                    SELECT job.priority FROM {_LINE} AND job.queue = :queue{n} AND job.lane = :lane{n}
                        AND job.priority < :below{n}
                    ORDER BY job.priority DESC LIMIT 1
                )
            ORDER BY job.run_at LIMIT 1
        """
        ),
    )


@cache
def _depths(arms: int) -> TextClause:
    """For each arm, the number of queued jobs in its lane, up to `most`."""
    return _union(
        arms,
        lambda n: (
            f"""
            SELECT {n}, count(*) FROM (
                SELECT 1 FROM {_LINE} AND job.queue = :queue AND job.lane = :lane{n} LIMIT :most
            ) AS found
        """
        ),
    )


def _union(arms: int, arm: Callable[[int], str]) -> TextClause:
    return text(" UNION ALL ".join(f"({arm(n)})" for n in range(arms)))


def _by_arms(
    run: Runner, statement: Callable[[int], TextClause], items: Sequence[T], params: Callable[[int, T], Params]
) -> Iterator[tuple[Any, ...]]:
    """Ask about as many items as a statement has arms; yield each answer with its item before it."""
    for start in range(0, len(items), ARMS_MAX):
        some = items[start : start + ARMS_MAX]
        given = {name: value for n, item in enumerate(some) for name, value in params(n, item).items()}
        for arm, *answer in run.rows(statement(len(some)), given):
            yield some[arm], *answer


def _below(n: int, head: Head) -> Params:
    return {f"queue{n}": head.queue, f"lane{n}": head.lane, f"below{n}": head.priority}
