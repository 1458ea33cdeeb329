"""The queues that a worker serves: given by name or by pattern, each whole or some of its lanes."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Mapping

from stanchion.context.context import Context
from stanchion.context.queue_patterns import QueuePatterns, queues_in_code
from stanchion.context.shard import range_in, stored_range
from stanchion.core.checks import brief, several
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import InvalidInput
from stanchion.jobs.options import named_queues
from stanchion.stores.records.workers import LaneRange

REFRESH_SECONDS, REFRESH_SECONDS_MAX = 2.0, 10.0
"""Seconds between two searches for new queues that match a pattern, by all workers together; maximum for one of them.

More if a search takes long.
"""

_JITTER = 0.2
"""Share by which the searches of a fleet vary up and down, so that workers do not search in step."""

_SPACING = 50
"""Divisor: searches for new queues take at most this fraction of the time."""


class ServedQueues:
    """The queues that a worker serves now.

    `given`: their names, and patterns where `*` matches any text; None: the queues of all tasks and stations. A name
    with `*` that the code gives to a queue is no pattern. A pattern leaves out queues that take the dead letters of
    another, and stations that no worker can run. `lanes`: see `checked_lanes`.
    """

    def __init__(self, context: Context, given: Collection[str] | None, lanes: Mapping[str, LaneRange]) -> None:
        self._context, self.lanes = context, lanes
        self._asked = QueuePatterns(context, context.registry.own_queues() if given is None else given)
        letters = {settings.get("dead_letter") for settings in context.declared.settings.values()}
        self.names = self._matched(queues_in_code(context) - letters)
        context.registry.check_worked(self.names)
        self._look_at = 0.0
        for name in lanes:
            if not self._asked.cover(name):
                raise InvalidInput(f"lanes names the queue {brief(name)}, which is not among the queues of this worker")

    @property
    def open(self) -> bool:
        """True if more queues may come, as some are given by a pattern."""
        return self._asked.open

    @property
    def ranges(self) -> tuple[LaneRange, ...]:
        """The lanes of the queues that it serves only in part."""
        return tuple(self.lanes[name] for name in self.names if name in self.lanes)

    @property
    def look_in(self) -> float | None:
        """Seconds until the next search for new queues; None: there is none."""
        return max(0.0, self._look_at - time.monotonic()) if self.open else None

    def refresh(self, fleet: int) -> bool:
        """Search for new queues if it is time; return True if the queues have changed. `fleet`: live workers."""
        began = time.monotonic()
        if not self.open or began < self._look_at:
            return False
        known = [one for one in self._context.fresh_store.queues() if logical_name(one.name) == one.name]
        letters = {settings.dead_letter for settings in known}
        letters |= {settings.get("dead_letter") for settings in self._context.declared.settings.values()}
        names = self._matched({*queues_in_code(self._context), *(settings.name for settings in known)} - letters)
        changed, self.names = names != self.names, names
        now = time.monotonic()
        pause = min(REFRESH_SECONDS * max(1, fleet), REFRESH_SECONDS_MAX)
        pause *= 1 if fleet < 2 else random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - spreading load
        self._look_at = now + max(pause, _SPACING * (now - began))
        return changed

    def _matched(self, known: Collection[str]) -> list[str]:
        return self._asked.among(filter(self._works_on, known))

    def _works_on(self, queue: str) -> bool:
        station = self._context.registry.stations.get(queue)
        return station is None or station.on_workers


def checked_lanes(value: object) -> dict[str, LaneRange]:
    """Return the lanes of some queues: `{"orders": range(0, 16)}`, or texts such as `orders=0-15`."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        given: Iterable[tuple[object, object]] = value.items()
    else:
        texts = [value] if isinstance(value, str) else several(value, "lanes", "['orders=0-15']")
        given = [_pair(text) for text in texts]
    found: dict[str, LaneRange] = {}
    for queue, lanes in given:
        (name,) = named_queues([queue])
        if name in found:
            raise InvalidInput(f"lanes names the queue {brief(name)} twice; a worker serves one range of its lanes")
        found[name] = LaneRange(name, *stored_range(range_in(lanes) if isinstance(lanes, str) else lanes))
    return found


def _pair(text: object) -> tuple[str, str]:
    queue, equals, lanes = text.rpartition("=") if isinstance(text, str) else ("", "", "")
    if not equals or not queue:
        raise InvalidInput(f"lanes must be QUEUE=FIRST-LAST, such as 'orders=0-15', not {brief(text)}")
    return queue, lanes


def served_by(context: Context, named: Collection[str] | None, lanes: Mapping[str, LaneRange]) -> ServedQueues:
    """Return the queues that a worker serves. Raises InvalidInput if this app has nothing to run."""
    served = ServedQueues(context, named or None, lanes)
    if not (served.names or served.open) or not (context.registry.tasks or context.registry.stations):
        raise InvalidInput(
            "this app has no tasks and no stations, so a worker could run nothing; register functions with "
            "@app.task, and import the modules that define them before the worker starts"
        )
    return served
