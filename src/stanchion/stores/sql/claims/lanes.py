"""Round-robin over the lanes of a queue.

A claim of a queue with lanes locks the row of the queue, so that one claimer at a time searches it. It visits the lanes
in use, starting after the one that was served last. It reads no more lanes than it wants jobs, not counting the lanes
that hold only scheduled jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    String,
    Text,
    literal_column,
    select,
    union_all,
    update,
)

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.elements import AnyElement, AnySelect, AnyUnion
from stanchion.stores.sql.engine.columns import QUEUED, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.engine.schema import jobs, queues, values
from stanchion.stores.sql.rows.queue_row import QueueRow

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


class ByArms(dict[int, AnyUnion]):
    """One statement per number of arms, built on first use, as building all of them takes long."""

    def __init__(self, arm: Callable[[int], AnySelect]) -> None:
        super().__init__()
        self._arm = arm

    def __missing__(self, arms: int) -> AnyUnion:
        statement = self[arms] = union_all(*(select(self._arm(n).subquery()) for n in range(arms)))
        return statement


def _queued(*columns: AnyElement) -> AnySelect:
    return select(*columns).where(jobs.c.queue == _QUEUE, jobs.c.state == QUEUED).with_hint(*_INDEX)


def _in_lane(lane: ColumnElement[int], *columns: AnyElement) -> AnySelect:
    return _queued(*columns).where(jobs.c.lane == lane)


def _arm(n: int, name: str) -> AnyElement:
    return param(f"{name}{n}", Integer)


def _number(n: int, name: str) -> ColumnElement[int]:
    return literal_column(str(n), Integer).label(name)


def _heads(dialect: Dialect) -> AnySelect:
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


def _lower_head(dialect: Dialect, n: int) -> AnySelect:
    """Return the arm that finds the highest rank below `below` in a lane, and when its first job is due."""
    lane = _arm(n, "lane")
    highest = _in_lane(lane, jobs.c.rank).where(jobs.c.rank < _arm(n, "below"))
    rank = highest.order_by(jobs.c.rank.desc()).limit(1).scalar_subquery()
    found = _in_lane(lane, _number(n, "arm"), jobs.c.rank, jobs.c.run_at, dialect.now.label("now"))
    return found.where(jobs.c.rank == rank).order_by(jobs.c.run_at).limit(1)


def pick(dialect: Dialect, n: int, *, locking: bool = True) -> AnySelect:
    """Return the arm that finds and locks the next due jobs of a head."""
    found = _in_lane(_arm(n, "lane"), _number(n, "arm"), jobs.c.run_at, jobs.c.id).where(
        jobs.c.rank == _arm(n, "rank"),
        # Entries of jobs that left the index stay in it for a while; starting after them avoids reading them.
        jobs.c.run_at >= param(f"since{n}", jobs.c.run_at.type),
        jobs.c.run_at <= dialect.now,
    )
    found = found.order_by(jobs.c.run_at, jobs.c.id).limit(_arm(n, "most"))
    return found.with_for_update(skip_locked=True) if locking else found


T = TypeVar("T")

_NOTHING = {"lane": UNLANED - 1}


class Head(NamedTuple):
    """A rank in use in a lane, and when its first job is due."""

    lane: int
    rank: int
    run_at: int
    due: bool


class Pick(NamedTuple):
    """A picked job, and its lane."""

    lane: int
    id: str


class PicksInLanes(Protocol):
    """Picks the due jobs of some lanes."""

    def pick(self, run: Runner, queue: str, heads: Sequence[Head], share: Mapping[int, int]) -> list[Pick]:
        """Return the first due jobs of each head, locked; at most the share of the head's lane."""


class LanePicks:
    """Picks jobs by a statement with one arm per lane."""

    def __init__(self, db: Database, statements: type[LaneStatements] = LaneStatements) -> None:
        self._statements = db.dialect.once(statements)

    def pick(self, run: Runner, queue: str, heads: Sequence[Head], share: Mapping[int, int]) -> list[Pick]:
        def wish(head: Head) -> Params:
            return {**head._asdict(), "since": head.run_at, "most": share[head.lane]}

        picked = by_arms(run, queue, self._statements.picks, heads, wish)
        return [Pick(head.lane, str(job)) for head, _run_at, job in picked]


class Lanes:
    """Finds the next jobs in round-robin order."""

    def __init__(self, db: Database, picks: PicksInLanes, statements: type[LaneStatements] = LaneStatements) -> None:
        self._picks = picks
        self._statements = db.dialect.once(statements)

    def next_picks(self, run: Runner, claim: Claim, limit: int, served: int) -> list[Pick]:
        """Return the next due jobs, locked, in round-robin order, starting after the lane that was `served` last.

        They may be fewer than there are, as a lane can have less than its share.
        """
        heads = self._due_heads(run, claim, limit, served)
        if not heads:
            return []
        each, rest = divmod(limit, len(heads))
        share = {head.lane: each + (nth < rest) for nth, head in enumerate(heads)}
        found: dict[int, list[Pick]] = {head.lane: [] for head in heads}
        while heads:
            for pick in self._picks.pick(run, claim.queue, heads, share):
                found[pick.lane].append(pick)
                share[pick.lane] -= 1
            short = [head for head in heads if share[head.lane] > 0]
            heads = list(self._first_due(run, claim, self._lower(run, claim.queue, short)))
        return [pick for round_ in zip_longest(*found.values()) for pick in round_ if pick is not None]

    def _due_heads(self, run: Runner, claim: Claim, most: int, served: int) -> list[Head]:
        """Return the first due head of each of the next lanes that have one, in round-robin order."""
        first, last = claim.lanes or (UNLANED, LAST_LANE)
        found: list[Head] = []
        for start, end in ((max(first, served + 1), last), (first, min(served, last))):
            wanted = most - len(found)
            while start <= end and len(found) < most:
                tops, start = self._heads(run, claim.queue, start, end, wanted)
                due = {head.lane: head for head in self._first_due(run, claim, tops)}
                found += [due[lane] for lane in sorted(due)][: most - len(found)]
                wanted *= 2  # all of these lanes may hold only scheduled jobs
        return found

    def _heads(self, run: Runner, queue: str, first: int, last: int, most: int) -> tuple[list[Head], int]:
        """Return the highest heads of up to `most` lanes from `first` to `last`, and the lane to continue from."""
        given = {"queue": queue, "first": first, "last": last, "most": most}
        heads = [_head(*row) for row in run.rows(self._statements.heads, given)]
        seen = heads[-1].lane if len(heads) == most else min(last, first + self._statements.reach)
        return heads, seen + 1

    def _first_due(self, run: Runner, claim: Claim, heads: list[Head]) -> Iterator[Head]:
        """Yield, for each lane, its first due head from these heads down to the lowest rank wanted, if it has one."""
        while heads := [head for head in heads if head.rank >= claim.min_rank]:
            yield from (head for head in heads if head.due)
            heads = self._lower(run, claim.queue, [head for head in heads if not head.due])

    def _lower(self, run: Runner, queue: str, heads: Sequence[Head]) -> list[Head]:
        """Return the next lower heads in the same lanes."""
        return [
            _head(head.lane, *row) for head, *row in by_arms(run, queue, self._statements.lower_heads, heads, _below)
        ]

    def served(self, run: Runner, claim: Claim, row: QueueRow) -> int:
        """Return the lane that was served last, overall or in the claim's range; `row`: the queue's, locked."""
        if claim.lanes is None:
            return row.last_lane
        found = run.rows(self._statements.range_served, _range(claim.queue, claim.lanes))
        return int(found[0][0]) if found else UNLANED

    def serve(self, run: Runner, claim: Claim, lane: int) -> None:
        """Store the lane that was served last."""
        if claim.lanes is None:
            run.change(self._statements.serve, {"queue": claim.queue, "served": lane})
            return
        given = {**_range(claim.queue, claim.lanes), "served": str(lane)}
        if run.change(self._statements.serve_range, given) == 0:
            run.change(self._statements.first_served, given)


def by_arms(
    run: Runner,
    queue: str,
    statements: Mapping[int, Executable],
    items: Sequence[T],
    params: Callable[[T], Params],
) -> Iterator[Row]:
    """Query as many items as a statement has arms; yield each item with its sorted answers."""
    for start in range(0, len(items), ARMS[-1]):
        some = items[start : start + ARMS[-1]]
        arms = next(arms for arms in ARMS if arms >= len(some))
        given: dict[str, object] = {"queue": queue}
        for n in range(arms):
            values = params(some[n]) if n < len(some) else {**params(some[0]), **_NOTHING}
            given |= {f"{name}{n}": value for name, value in values.items()}
        for arm, *answer in sorted(run.rows(statements[arms], given)):
            if arm < len(some):
                yield some[arm], *answer


def _head(lane: int, rank: int, run_at: int, now: int) -> Head:
    return Head(lane, rank, int(run_at), run_at <= now)


def _below(head: Head) -> Params:
    return {"lane": head.lane, "below": head.rank}


def _range(queue: str, lanes: tuple[int, int]) -> Params:
    return {"queue": queue, "range": kind_of_range(*lanes)}
