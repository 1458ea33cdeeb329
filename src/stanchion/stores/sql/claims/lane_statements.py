"""The statements about the lanes of a queue, each built once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Executable,
    Integer,
    Select,
    String,
    Text,
    literal_column,
    select,
    union_all,
    update,
)

from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.engine.columns import QUEUED, param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import jobs, queues, values

LAST_LANE = 1023
"""The highest lane that is stored."""

ARMS = (1, 4, 16, 64)
"""Numbers of lanes that one statement can ask about; each number has its own statement."""

# Without a hint, a server that has no statistics scans the table.
_INDEX = (jobs, "FORCE INDEX (stanchion_jobs_ready)", "mysql")
_QUEUE = param("queue", String)


RANGES = "lanes "
"""Prefix of the values that keep the round-robin position of a range of lanes."""


def kind_of_range(first: int, last: int) -> str:
    """Return the kind of the value that keeps the round-robin position of this range."""
    return f"{RANGES}{first}-{last}"


class LaneStatements:
    """The statements about lanes, for one dialect.

    Statements with arms take `lane0`, `lane1`, ...; the first column of a row is the number of its arm.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.heads: Executable = _heads(dialect)
        self.reach = LAST_LANE - UNLANED
        """Number of lanes after the first that `heads` searches."""
        self.lower_heads = ByArms(lambda n: _lower_head(dialect, n))
        self.picks = ByArms(lambda n: pick(dialect, n))

        served = param("served", Integer)
        self.serve = update(queues).where(queues.c.name == _QUEUE).values(last_lane=served)
        mine = (values.c.kind == param("range", String), values.c.name == _QUEUE)
        self.range_served = select(values.c.text).where(*mine)
        self.serve_range = update(values).where(*mine).values(text=param("served", Text))
        self.first_served = dialect.insert_ignoring(
            values,
            {
                "kind": param("range", String),
                "name": _QUEUE,
                "version": literal_column("0"),
                "text": param("served", Text),
            },
        )


class ByArms(dict[int, CompoundSelect[Any]]):
    """One statement per number of arms, built on first use, as building all of them takes long."""

    def __init__(self, arm: Callable[[int], Select[Any]]) -> None:
        super().__init__()
        self._arm = arm

    def __missing__(self, arms: int) -> CompoundSelect[Any]:
        statement = self[arms] = union_all(*(select(self._arm(n).subquery()) for n in range(arms)))
        return statement


def _queued(*columns: ColumnElement[Any]) -> Select[Any]:
    return select(*columns).where(jobs.c.queue == _QUEUE, jobs.c.state == QUEUED).with_hint(*_INDEX)


def _in_lane(lane: ColumnElement[int], *columns: ColumnElement[Any]) -> Select[Any]:
    return _queued(*columns).where(jobs.c.lane == lane)


def _arm(n: int, name: str) -> ColumnElement[Any]:
    return param(f"{name}{n}", Integer)


def _number(n: int, name: str) -> ColumnElement[int]:
    return literal_column(str(n), Integer).label(name)


def _heads(dialect: Dialect) -> Select[Any]:
    """Return the statement that finds the first `most` lanes in use from `first` to `last`, by a loose index scan.

    Each row has the highest rank of its lane, and when the first job of that rank is due.
    """
    lowest = _queued(jobs.c.lane).where(jobs.c.lane <= param("last", Integer)).order_by(jobs.c.lane).limit(1)
    first = lowest.where(jobs.c.lane >= param("first", Integer)).scalar_subquery()
    lanes = select(_number(1, "n"), first.label("lane")).cte("lanes", recursive=True)
    following = lowest.where(jobs.c.lane > lanes.c.lane).correlate(lanes).scalar_subquery()
    lanes = lanes.union_all(
        select(lanes.c.n + literal_column("1"), following).where(
            lanes.c.lane.is_not(None), lanes.c.n < param("most", Integer)
        )
    )
    highest = _in_lane(lanes.c.lane, jobs.c.rank).order_by(jobs.c.rank.desc()).limit(1).correlate(lanes)
    tops = (
        select(lanes.c.lane, highest.scalar_subquery().label("rank")).where(lanes.c.lane.is_not(None)).subquery("tops")
    )
    firsts = _in_lane(tops.c.lane, jobs.c.run_at).where(jobs.c.rank == tops.c.rank).order_by(jobs.c.run_at)
    first_due = firsts.limit(1).correlate(tops).scalar_subquery()
    return select(tops.c.lane, tops.c.rank, first_due, dialect.now).order_by(tops.c.lane)


def _lower_head(dialect: Dialect, n: int) -> Select[Any]:
    """Return the arm that finds the highest rank below `below` in a lane, and when its first job is due."""
    lane = _arm(n, "lane")
    highest = _in_lane(lane, jobs.c.rank).where(jobs.c.rank < _arm(n, "below"))
    rank = highest.order_by(jobs.c.rank.desc()).limit(1).scalar_subquery()
    found = _in_lane(lane, _number(n, "arm"), jobs.c.rank, jobs.c.run_at, dialect.now.label("now"))
    return found.where(jobs.c.rank == rank).order_by(jobs.c.run_at).limit(1)


def pick(dialect: Dialect, n: int, *, locking: bool = True) -> Select[Any]:
    """Return the arm that finds and locks the next due jobs of a head."""
    found = _in_lane(_arm(n, "lane"), _number(n, "arm"), jobs.c.run_at, jobs.c.id).where(
        jobs.c.rank == _arm(n, "rank"),
        # Entries of jobs that left the index stay in it for a while; starting after them avoids reading them.
        jobs.c.run_at >= param(f"since{n}", jobs.c.run_at.type),
        jobs.c.run_at <= dialect.now,
    )
    found = found.order_by(jobs.c.run_at, jobs.c.id).limit(_arm(n, "most"))
    return found.with_for_update(skip_locked=True) if locking else found
