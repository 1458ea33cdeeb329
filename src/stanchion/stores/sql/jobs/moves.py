"""Common parts of the statements that move jobs: which moves they serve, and which trails they continue.

A trail, which is JSON, is continued as text: `[..., [queue, entered]]` becomes
`[..., [queue, entered, attempts, left], [to, now]]`, by the rules of `rules.lifecycle.trail` and
`rules.lifecycle.outcomes.settled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stanchion.stores.records.jobs import UNLANED, JobState
from stanchion.stores.records.outcomes import Move
from stanchion.stores.rules.lifecycle.trail import STOPS_MAX
from stanchion.stores.sql.engine.runner import Runner

# A queue's name may have this text as well: then a job takes the general route a little early.
_BETWEEN_STOPS = "],["

FEW_STOPS = f"length(trail) - length(replace(trail, '{_BETWEEN_STOPS}', '')) < {3 * (STOPS_MAX - 2)}"
"""The condition that a trail has room for two more stops."""


class Moves(Protocol):
    """Moves jobs without reading them."""

    def move_in(self, run: Runner, moves: Sequence[Move]) -> list[JobState] | None:
        """Move jobs in an open transaction; None, without a change, if these moves must be applied row by row."""


def is_plain_move(move: Move) -> bool:
    """Return whether a statement can apply the move: it has no lane and no order key."""
    return move.lane == UNLANED and move.order_key is None
