"""Common parts of the statements that move jobs: which moves they serve, and which trails they continue.

A trail, which is JSON, is continued as text: `[..., [queue, entered]]` becomes
`[..., [queue, entered, attempts, left], [to, now]]`, by the rules of `rules.lifecycle.trail` and
`rules.lifecycle.outcomes.settled`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from stanchion.core.names.partition_names import logical_name
from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Pass, Passage
from stanchion.stores.rules.lifecycle.trail import STOPS_MAX
from stanchion.stores.sql.engine.runner import Runner

# A queue's name may have this text as well: then a job takes the general route a little early.
_BETWEEN_STOPS = "],["


def stops_in(trail: str) -> str:
    """Return the term for the number of stops after the first one of a trail, or a few more."""
    return f"(length({trail}) - length(replace({trail}, '{_BETWEEN_STOPS}', ''))) / {len(_BETWEEN_STOPS)}"


def shown(queue: str) -> str:
    """Return the name of a queue as it stands in a trail."""
    return json.dumps(logical_name(queue), ensure_ascii=False)


def rest_of_trail(passages: Sequence[Passage], time: str) -> str:
    """Return the end of the trail of a job that passes queues, from its change at the first queue on.

    `time`: when it passed them, after one attempt at each but the last.
    """
    ends = [f",1,{int(passage.changed)}" for passage in passages[1:]]
    stops = zip(passages, [*ends, "]]"], strict=True)
    return f",{int(passages[0].changed)}" + "".join(f"],[{shown(queue)},{time}{end}" for (queue, *_), end in stops)


FEW_STOPS = f"{stops_in('trail')} < {STOPS_MAX - 2}"
"""The condition that a trail has room for two more stops."""


class Passes(Protocol):
    """Ends jobs that passed queues in memory, without reading them."""

    def pass_in(self, run: Runner, passes: Sequence[Pass]) -> list[JobState] | None:
        """End jobs in an open transaction; None, without a change, if these must be ended row by row."""


class Moves(Protocol):
    """Moves jobs without reading them."""

    def move_in(self, run: Runner, moves: Sequence[Move]) -> list[JobState] | None:
        """Move jobs in an open transaction; None, without a change, if these moves must be applied row by row."""


def is_plain_pass(outcome: Outcome) -> bool:
    """Return whether a statement can apply the outcome: a plain commit, after queues that keep no payload."""
    return (
        type(outcome) is Pass
        and type(last := outcome.then) is Commit
        and not (last.jobs or last.rows)
        and last.payload is None
        and is_plain_way(outcome)
    )


def is_plain_way(outcome: Pass) -> bool:
    """Return whether statements can take a job through these queues: none keeps the payload of the arrival."""
    return all(passage.kept is None for passage in outcome.passages)


def is_plain_move(move: Move) -> bool:
    """Return whether a statement can apply the move: it has no lane and no order key."""
    return move.lane == UNLANED and move.order_key is None
