"""Jobs out of the lanes of a queue, each lane in its turn.

A claim of a laned queue locks the queue's row, so that only one at a time looks for jobs, and goes round the lanes
that hold some, from behind the one served last. It looks at no more lanes than it wants jobs, but for those whose
jobs are all scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Executable

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.lane_statements import ARMS, LAST_LANE, LaneStatements, kind_of_range
from stanchion.stores.sql.queue_rows import QueueRow

T = TypeVar("T")

_NOTHING = {"lane": -1}


class Head(NamedTuple):
    """One priority in use in a lane, and when the first job of it is due."""

    lane: int
    priority: int
    run_at: int
    due: bool


class Turn(NamedTuple):
    """A job whose turn it is."""

    lane: int
    id: str


class Laning(SqlBase):
    """Finds the jobs whose turn it is."""

    lane_statements_of: type[LaneStatements] = LaneStatements

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.lane_statements = self.dialect.once(self.lane_statements_of)

    # -- turns

    def in_turn(self, run: Runner, claim: Claim, limit: int, served: int) -> list[Turn]:
        """Return the next due jobs, locked, in the order of their turns, after the lane that was `served` last.

        They may be fewer than there are, where a lane has less than its share.
        """
        heads = self._due_heads(run, claim, limit, served)
        if not heads:
            return []
        each, rest = divmod(limit, len(heads))
        share = {head.lane: each + (turn < rest) for turn, head in enumerate(heads)}
        found: dict[int, list[Turn]] = {head.lane: [] for head in heads}
        while heads:
            for turn in self.pick_in_lanes(run, claim.queue, heads, share):
                found[turn.lane].append(turn)
                share[turn.lane] -= 1
            short = [head for head in heads if share[head.lane] > 0]
            heads = list(self._first_due(run, claim.queue, self._lower(run, claim.queue, short)))
        return [turn for round_ in zip_longest(*found.values()) for turn in round_ if turn is not None]

    def _due_heads(self, run: Runner, claim: Claim, most: int, served: int) -> list[Head]:
        """Return the first due head of each of the next lanes that have one, in the order of their turns."""
        first, last = claim.lanes or (UNLANED, LAST_LANE)
        found: list[Head] = []
        for start, end in ((max(first, served + 1), last), (first, min(served, last))):
            wanted = most - len(found)
            while start <= end and len(found) < most:
                tops, start = self.heads(run, claim.queue, start, end, wanted)
                due = {head.lane: head for head in self._first_due(run, claim.queue, tops)}
                found += [due[lane] for lane in sorted(due)][: most - len(found)]
                wanted *= 2  # for where all of these are scheduled
        return found

    def heads(self, run: Runner, queue: str, first: int, last: int, most: int) -> tuple[list[Head], int]:
        """Return the highest heads of up to `most` lanes from `first` to `last`, and the lane to go on from."""
        given = {"queue": queue, "first": first, "last": last, "most": most}
        heads = [_head(*row) for row in run.rows(self.lane_statements.heads, given)]
        seen = heads[-1].lane if len(heads) == most else min(last, first + self.lane_statements.reach)
        return heads, seen + 1

    def _first_due(self, run: Runner, queue: str, heads: list[Head]) -> Iterator[Head]:
        """Yield for each lane its first head that is due, from these on, if there is one."""
        while heads:
            yield from (head for head in heads if head.due)
            heads = self._lower(run, queue, [head for head in heads if not head.due])

    def _lower(self, run: Runner, queue: str, heads: Sequence[Head]) -> list[Head]:
        """Return the next lower heads in the same lanes."""
        return [
            _head(head.lane, *row)
            for head, *row in self._by_arms(run, queue, self.lane_statements.lower_heads, heads, _below)
        ]

    def pick_in_lanes(self, run: Runner, queue: str, heads: Sequence[Head], share: Mapping[int, int]) -> list[Turn]:
        """Return the first due jobs of each head, locked, as many as is its lane's share."""

        def wish(head: Head) -> Params:
            return {**head._asdict(), "since": head.run_at, "most": share[head.lane]}

        picked = self._by_arms(run, queue, self.lane_statements.picks, heads, wish)
        return [Turn(head.lane, str(job)) for head, _run_at, job in picked]

    def _by_arms(
        self,
        run: Runner,
        queue: str,
        statements: Mapping[int, Executable],
        items: Sequence[T],
        params: Callable[[T], Params],
    ) -> Iterator[tuple[Any, ...]]:
        """Ask about as many items as a statement has arms; yield each answer, sorted, with its item before it."""
        for start in range(0, len(items), ARMS[-1]):
            some = items[start : start + ARMS[-1]]
            arms = next(arms for arms in ARMS if arms >= len(some))
            given = {"queue": queue}
            for n in range(arms):
                values = params(some[n]) if n < len(some) else {**params(some[0]), **_NOTHING}
                given |= {f"{name}{n}": value for name, value in values.items()}
            for arm, *answer in sorted(run.rows(statements[arms], given)):
                if arm < len(some):
                    yield some[arm], *answer

    def served(self, run: Runner, claim: Claim, row: QueueRow) -> int:
        """Return the lane that was served last, of all or of the claim's range; `row`: the queue's, locked."""
        if claim.lanes is None:
            return row.last_lane
        found = run.rows(self.lane_statements.range_served, _range(claim.queue, claim.lanes))
        return int(found[0][0]) if found else UNLANED

    def serve(self, run: Runner, claim: Claim, lane: int) -> None:
        """Remember the lane that was served last."""
        if claim.lanes is None:
            run.change(self.lane_statements.serve, {"queue": claim.queue, "served": lane})
            return
        given = {**_range(claim.queue, claim.lanes), "served": str(lane)}
        if run.change(self.lane_statements.serve_range, given) == 0:
            run.change(self.lane_statements.first_served, given)


def _head(lane: int, priority: int, run_at: int, now: int) -> Head:
    return Head(lane, priority, int(run_at), run_at <= now)


def _below(head: Head) -> Params:
    return {"lane": head.lane, "below": head.priority}


def _range(queue: str, lanes: tuple[int, int]) -> Params:
    return {"queue": queue, "range": kind_of_range(*lanes)}
