"""The queue that a receiver's next job is taken from, among the queues with jobs at this manager.

A receiver names its queues in an order, and says how to choose. `priority`: the job with the highest rank in any of
them; queues whose next jobs have equal ranks take turns, as dispatch visits all queues in turn. `strict`: the job of
the first queue that has a due job. `fair`: each queue in turn, whatever the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stanchion.core.names.partition_names import logical_name
from stanchion.manager.dispatch.receivers.receiver import Receiver
from stanchion.manager.window.window import Window
from stanchion.stores.records.claims import LOWEST_RANK

NONE = -LOWEST_RANK
"""Above each rank."""


class Precedence:
    """For one round of dispatch, at a time of the store. `rests`: returns True for queues not to be claimed from.

    A queue whose jobs are not known yet comes before others.
    """

    def __init__(self, windows: Mapping[str, Window], rests: Callable[[str], bool], now: int) -> None:
        self._windows, self._rests, self._now = windows, rests, now
        self._best: dict[tuple[str, tuple[int, int] | None], int | None] = {}

    def lowest(self, receiver: Receiver, queue: str) -> int:
        """Return the lowest rank that jobs of a queue must have, as other queues of a receiver come before the rest."""
        if receiver.order == "fair" or len(receiver.queues) == 1:
            return LOWEST_RANK
        lowest, name = LOWEST_RANK, logical_name(queue)
        for other in receiver.queues:
            if receiver.order == "strict" and logical_name(other) == name:
                break  # partitions of a queue, which are listed together, take turns
            if other == queue:
                continue
            best = self._best_of(other, receiver.lanes.get(other))
            if best is not None:
                lowest = NONE if receiver.order == "strict" else max(lowest, best)
        return lowest

    def _best_of(self, queue: str, lanes: tuple[int, int] | None) -> int | None:
        key = queue, lanes
        if key not in self._best:
            self._best[key] = self._look(queue, lanes)
        return self._best[key]

    def _look(self, queue: str, lanes: tuple[int, int] | None) -> int | None:
        window = self._windows.get(queue)
        if window is None:
            return None
        if not window.loaded:
            return NONE
        window.due(self._now)
        return None if self._rests(queue) else window.best(lanes)
