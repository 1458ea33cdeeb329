"""Reading dead letters: searches in the queue where they died, and how many lie in each dead-letter queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stanchion.core.names.partition_names import logical_name
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, Sizes
from stanchion.stores.rules.lifecycle.dead_letters import letter_queues
from stanchion.stores.rules.query import merged, states_in, value_of

LETTERS_MAX: Final = 2000
"""The newest dead letters that are counted one by one; of more, all queued jobs of dead-letter queues count as such."""

_DEAD: Final = Condition("state", "=", JobState.DEAD.value)
_OWN: Final = frozenset({"queue", "state", "finished_at"})
_ABOVE: Final = frozenset({">", ">="})


class ByHome:
    """Searches a store for jobs of a queue, among them the dead letters that died there, wherever they lie.

    A search for dead jobs in a dead-letter queue finds its jobs, as in the store. A bound on the finish time applies
    to the death of a letter.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def select(self, query: Query) -> Page:
        """Return a page of a query."""
        parts = [(self._store.select, part) for part in _parts(query)]
        return merged(query, [(self._store.select, query), *parts]) if parts else self._store.select(query)


def _parts(query: Query) -> list[Query]:
    """Return the queries for dead letters that the query itself does not find."""
    states, queue = states_in(query), value_of(query, "queue")
    ends = [one for one in query.where if one.field == "finished_at"]
    if (states is not None and JobState.DEAD not in states) or query.order not in ("newest", "id"):
        return []
    if (queue is None and not ends) or any(_names_places(one) for one in query.where):
        return []
    letters = replace(query, where=(_DEAD, *(one for one in query.where if one.field not in _OWN)))
    died_there = [] if queue is None else [Condition("dead_from", "=", queue)]
    if not ends:
        return [letters.also(*died_there)]
    deaths = [Condition("dead_at", one.op, one.value) for one in ends]
    deaths += [Condition("run_at", one.op, one.value) for one in ends if one.op in _ABOVE]  # due since then, or later
    waiting = replace(letters, of="live").also(*deaths)
    if queue is None:
        return [waiting]
    lying_there = Condition("queue", "=", queue)
    handled = replace(letters, of="history").also(*died_there, *ends)
    return [waiting.also(*died_there), waiting.also(lying_there), handled]


def _names_places(condition: Condition) -> bool:
    """Return True for a condition that says where the jobs lie."""
    return condition.field == "passed" or (condition.field == "queue" and condition.op != "=")


class Letter(NamedTuple):
    """A dead letter. `place`: the queue where it lies; `queue`: where it died, at `died_at`, in microseconds."""

    id: str
    place: str
    queue: str
    priority: int
    died_at: int


class Letters(NamedTuple):
    """The newest dead letters; `whole`: they are all.

    `lying`: how many lie in each dead-letter queue that has some. `places`: all queues that take dead letters.
    """

    found: tuple[Letter, ...] = ()
    whole: bool = True
    lying: Mapping[str, int] = {}
    places: frozenset[str] = frozenset()

    @property
    def died(self) -> Mapping[str, int]:
        """How many of those found died in each queue."""
        return Counter(one.queue for one in self.found)

    def work_of(self, queue: str, stats: QueueStats) -> QueueStats:
        """Return the figures of a queue, with the sizes of its work. A dead letter counts as one item."""
        return stats._replace(states=self.work(queue, stats.states), items=self.work(queue, stats.items))

    def work(self, queue: str, sizes: Sizes) -> Sizes:
        """Return the sizes of a queue without its dead letters: the jobs that someone should work on."""
        left = self.lying.get(queue, 0)
        total = sizes.total - left
        ready, left = max(0, sizes.ready - left), max(0, left - sizes.ready)
        scheduled, left = max(0, sizes.scheduled - left), max(0, left - sizes.scheduled)
        return Sizes(max(sizes.running, total), ready, scheduled, max(0, sizes.waiting - left), sizes.running)


def read_letters(store: Store, settings: Sequence[QueueSettings], stats: Mapping[str, QueueStats]) -> Letters:
    """Read the newest dead letters that lie in these queues."""
    places = letter_queues(settings)
    queued = {name: one.states.total - one.states.running for name, one in stats.items()}
    names = tuple(sorted(name for name, jobs in queued.items() if jobs))
    if not names:
        return Letters(places=places)
    where = Condition("queue", "in", names), _DEAD
    columns = ("id", "queue", "dead_from", "priority", "dead_at")
    rows = store.select(Query("live", where, limit=LETTERS_MAX, columns=columns)).rows
    found = [Letter(job, place, logical_name(home), priority, at or 0) for job, place, home, priority, at in rows]
    whole = len(rows) < LETTERS_MAX
    lying = Counter(one.place for one in found)
    if not whole:
        lying |= {name: queued[name] for name in places if name in queued}
    return Letters(tuple(found), whole, {name: min(count, queued[name]) for name, count in lying.items()}, places)
