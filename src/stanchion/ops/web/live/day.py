"""How many jobs have died within a day, by queue: the totals of now less those kept a day ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stanchion.stores.protocol import Store
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import ALL, HOUR, MINUTE, QUEUES_MAX, Point

DAY: Final = 24 * HOUR


class Day:
    """Reads hourly the figures kept about a day ago; for a store watched for less, its first figures."""

    def __init__(self) -> None:
        self._hour = -1
        self._known: dict[str, list[Point]] = {}

    def read(self, store: Store, now: int, queues: Sequence[str]) -> None:
        """Read again if an hour has begun: two reads. Raises StanchionError."""
        hour = now // HOUR
        if hour == self._hour:
            return
        watched = rollups.in_hours(store, [ALL], range(hour - 24, hour + 1))[ALL]
        first = watched[0].at // HOUR if watched else hour
        found = rollups.in_hours(store, list(queues[:QUEUES_MAX]), range(first, first + 2))
        self._known = {**found, ALL: watched}
        self._hour = hour if watched else -1  # another process is about to keep the first ones

    def dead(self, queue: str, buried: int, now: int) -> int | None:
        """Return how many jobs of a queue have died within a day, or `since`. `buried`: total ever.

        None if that is not known: figures of so many queues are not kept.
        """
        before = self._before(queue, now)
        if before is None and (not self._known.get(ALL) or len(self._known) > QUEUES_MAX):
            return None
        gone = before.dead if before is not None else 0  # it is younger than the figures
        return buried - gone if buried >= gone else buried  # it was deleted, and made again

    def since(self, now: int) -> int | None:
        """Return since when jobs are counted, if that is less than a day."""
        before = self._before(ALL, now)
        return None if before is None or before.at <= now - DAY + MINUTE else before.at

    def _before(self, queue: str, now: int) -> Point | None:
        """Return the last figures of a queue that are a day old, or else its first ones."""
        points = self._known.get(queue, [])
        return next((one for one in reversed(points) if one.at <= now - DAY), points[0] if points else None)
