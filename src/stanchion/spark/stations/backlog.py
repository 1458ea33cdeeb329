"""What is left to do at the stations that Spark runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stanchion.context.context import Context
from stanchion.pipelines.station import Station
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Counts
from stanchion.streams.state import KIND, StreamState, has_unnumbered


class Backlog:
    """The due and running items of stations. A paused station's due items are left to those who resume it.

    A plain station's items are read from its queue. Those of a Spark station are reserved by its stream, which has
    work until its last batch is acknowledged.
    """

    def __init__(self, context: Context, stations: Sequence[Station]) -> None:
        self._context = context
        self._queues = [one.queue for one in stations]
        self._plain = [one.queue for one in stations if one.frame is None]
        self._streams = [one.queue for one in stations if one.frame is not None]

    def due(self, running: Collection[str]) -> set[str]:
        """Return the queues with due or running items. `running`: the queues whose stations run here.

        The stations go on meanwhile. An item can only be overlooked if it leaves a queue between two of these reads,
        and the counts of the queues show that: then the running stations have to be read again.
        """
        store, before = self._context.store, self._left()
        stored = store.values(KIND, self._streams) if self._streams else ()
        states = {value.name: StreamState.of(value) for value in stored}
        pending = {name for name, state in states.items() if state.pending}
        if pending and not self._plain and len(running) == len(self._queues):
            return pending  # no other station will start, so their due items need not be read
        taken = {name for name, state in states.items() if name in pending or has_unnumbered(store, state)}
        paused = {settings.name for settings in store.queues(self._queues) if settings.paused}
        stats, now = store.stats(self._queues, ["next_due"]), store.now()
        next_due = {queue: stats[queue].next_due for queue in self._queues if queue not in paused}
        due = taken | {queue for queue, due_at in next_due.items() if due_at is not None and due_at <= now}
        if due or (due := self._with_running()) or self._left() == before:
            return due
        return set(running)

    def claims(self) -> int:
        """Return how many items were claimed so far."""
        return sum(counts.reserved for counts in self._totals())

    def _with_running(self) -> set[str]:
        """Return the queues of plain stations of which an item runs, or was held by a worker that has died."""
        if not self._plain:
            return set()
        running = Condition("state", "=", JobState.RUNNING), Condition("queue", "in", tuple(self._plain))
        found = self._context.store.select(Query("live", running, order="id", limit=1, columns=("queue",)))
        return {queue for (queue,) in found.rows}

    def _left(self) -> list[Counts]:
        """Return how many items were claimed, and have left each queue or returned to it."""
        return [counts._replace(pushed=0) for counts in self._totals()]

    def _totals(self) -> list[Counts]:
        stats = self._context.store.stats(self._queues, ["totals"])
        return [stats[queue].totals for queue in self._queues]
