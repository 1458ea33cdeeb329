"""The order of a worker's claims from its queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from stanchion.core.checks import brief, chosen
from stanchion.errors import InvalidInput
from stanchion.stores.records.claims import LOWEST_RANK

Order = Literal["priority", "strict", "fair"]
"""`priority`: the job with the highest priority in any of the queues first, queues with equal ones in turn. `strict`:
the queues in the order given, each until it has no due job. `fair`: all queues in turn."""

ORDERS: Final[tuple[Order, ...]] = ("priority", "strict", "fair")


class Turn(NamedTuple):
    """A claim to make: from this queue, only jobs of at least this rank, `most` of them if given."""

    queue: str
    min_rank: int = LOWEST_RANK
    most: int | None = None


def checked_order(value: object) -> Order:
    """Return an order as given. Raises InvalidInput for another word."""
    if (known := chosen(value, ORDERS)) is None:
        raise InvalidInput(f"order must be {' or '.join(ORDERS)}, not {brief(value)}")
    return known


def turns_by_priority(ranks: Mapping[str, Collection[int]], served: Sequence[str]) -> list[Turn]:
    """Return the claims that deliver jobs of all queues by rank.

    `ranks`: of the due jobs of each queue. `served`: the queues, the longest without a job first; they have
    precedence among queues with jobs of equal rank. A claim takes no job of a rank where another queue has precedence.
    """
    places = {queue: place for place, queue in enumerate(served)}
    steps = sorted((-rank, places[queue], queue) for queue, ranks_of_it in ranks.items() for rank in ranks_of_it)
    turns: list[Turn] = []
    for minus_rank, _, queue in steps:
        turn = Turn(queue, -minus_rank)
        if turns and turns[-1].queue == queue:
            turns[-1] = turn
        else:
            turns.append(turn)
    last = {turn.queue: place for place, turn in enumerate(turns)}
    return [
        turn._replace(min_rank=LOWEST_RANK) if place == len(turns) - 1 == last[turn.queue] else turn
        for place, turn in enumerate(turns)
    ]
