"""Queues at rest: upkeep skips a queue where it has found no work, for as long as that is certain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings

LONGEST = 900.0
"""Maximum seconds of a rest: what upkeep of this process has not heard of is found that late."""


class Rests:
    """Remembers when to check each queue again; a queue new to this process is due."""

    def __init__(self) -> None:
        self._until: dict[_Known, int] = {}

    def over(self, queues: Sequence[QueueSettings], now: int) -> list[QueueSettings]:
        """Return the queues to check now. A change of settings or shape ends a rest, as does a clock set back."""
        present = {_known(one) for one in queues}
        self._until = {one: until for one, until in self._until.items() if one in present}
        return [one for one in queues if not 0 < self._until.get(_known(one), 0) - now <= LONGEST * SECOND]

    def begin(self, queues: Iterable[QueueSettings], now: int, seconds: float = LONGEST) -> None:
        """Leave these queues alone for this long."""
        self._until |= dict.fromkeys(map(_known, queues), now + int(min(seconds, LONGEST) * SECOND))


_Known = tuple[QueueSettings, str]


def _known(queue: QueueSettings) -> _Known:
    return queue, queue.shape  # which settings are compared without
