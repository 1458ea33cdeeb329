"""Things that a client's call may name only if they exist: semaphores, and partitions of queues.

A job with the name of an undeclared semaphore would run as if its capacity was 1. A queue that is named like a
partition, without the queue that has it, could be found by no page and no command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from stanchion.context.declarations.semaphores import SEEN_FOR, unknown
from stanchion.core.names.partition_names import logical_name, refuse_partition
from stanchion.manager.server.named import jobs_in, made_queues
from stanchion.stores.protocol import Store
from stanchion.stores.rules.capacity.limits import limits_in

Args = Mapping[str, object]


class Seen:
    """The existing names, as the store reported within SEEN_FOR. `find`: returns the existing ones of some names."""

    def __init__(self, find: Callable[[list[str]], Iterable[str]]) -> None:
        self._find = find
        self._seen: dict[str, float] = {}

    def missing(self, names: Iterable[str], *, ask: bool = True) -> list[str]:
        """Return the names that don't exist, sorted; without `ask`, the names that are not known to exist."""
        oldest = time.monotonic() - SEEN_FOR
        unseen = sorted(name for name in set(names) if self._seen.get(name, oldest) <= oldest)
        if not unseen or not ask:
            return unseen
        found = dict.fromkeys(self._find(unseen), time.monotonic())
        self._seen |= found
        return [name for name in unseen if name not in found]


class Known:
    """Checks the names in calls against one store."""

    def __init__(self, store: Store) -> None:
        self._semaphores = Seen(lambda names: [one.name for one in store.semaphores(names)])
        self._partitioned = Seen(lambda names: [one.name for one in store.queues(names) if one.partitioned])

    def check(self, verb: str, args: Args) -> None:
        """Raise InvalidInput for names of semaphores and partitions that don't exist. It may read the store."""
        if missing := self._semaphores.missing(_semaphores(verb, args)):
            raise unknown(missing)
        partitions = _partitions(verb, args)
        missing = self._partitioned.missing(partitions.values()) if partitions else []
        for name, queue in partitions.items():
            if queue in missing:
                refuse_partition(name)

    def asks_store(self, verb: str, args: Args) -> bool:
        """Return whether the check of a call reads the store."""
        return bool(
            self._semaphores.missing(_semaphores(verb, args), ask=False)
            or self._partitioned.missing(_partitions(verb, args).values(), ask=False)
        )


def _semaphores(verb: str, args: Args) -> list[str]:
    return [name for job in jobs_in(verb, args) if job.limits is not None for name in limits_in(job.limits).semaphores]


def _partitions(verb: str, args: Args) -> dict[str, str]:
    """Return the queues named like partitions, each with the queue that it would be a partition of."""
    return {name: queue for name in made_queues(verb, args) if (queue := logical_name(name)) != name}
