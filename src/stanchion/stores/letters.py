"""Reading dead letters: searches in the queue where they died, and how many lie in each dead-letter queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.query import Condition, Page, Query
from stanchion.stores.records.queues import QueueSettings, QueueStats, Sizes
from stanchion.stores.rules.lifecycle.dead_letters import death_in, letter_queues
from stanchion.stores.rules.query import COMPARE, merged, states_in, value_of

LETTERS_MAX: Final = 2000
"""The newest dead letters that are counted one by one; of more, all queued jobs of dead-letter queues count as such."""

_DEAD: Final = Condition("state", "=", JobState.DEAD.value)
_NEEDED: Final = ("id", "queue", "headers", "finished_at")
_OWN: Final = frozenset({"queue", "state", "finished_at"})
_ABOVE: Final = frozenset({">", ">="})


class ByHome:
    """Searches a store for jobs of a queue, among them the dead letters that died there, wherever they lie.

    A search for dead jobs in a dead-letter queue finds its jobs, as in the store. A bound on the finish time applies
    to the death of a letter. The dead-letter queues are the ones that some queue's settings name.

    `places`: these, where they have just been read.
    """

    def __init__(self, store: Store, places: Collection[str] | None = None) -> None:
        self._store, self._given = store, places

    @cached_property
    def _places(self) -> tuple[str, ...]:
        if self._given is not None:
            return tuple(sorted(self._given))
        settings = self._store.queues()
        return tuple(sorted(letter_queues(settings) & {one.name for one in settings}))

    def select(self, query: Query) -> Page:
        """Return a page of a query."""
        parts = self._parts(query)
        return merged(query, [(self._store.select, query), *parts]) if parts else self._store.select(query)

    def _parts(self, query: Query) -> list[tuple[Callable[[Query], Page], Query]]:
        """Return the queries for dead letters that the query itself does not find."""
        states, queue = states_in(query), value_of(query, "queue")
        ends = [one for one in query.where if one.field == "finished_at"]
        if (states is not None and JobState.DEAD not in states) or query.order not in ("newest", "id"):
            return []
        if (queue is None and not ends) or any(_names_places(one) for one in query.where) or not self._places:
            return []
        letters = _Letters(self._store, queue, ends)
        where = [_DEAD, Condition("queue", "in", self._places), *(one for one in query.where if one.field not in _OWN)]
        where += [] if queue is None else [Condition("passed", "=", queue)]
        if not ends:
            return [(letters.select, replace(query, where=tuple(where)))]
        due = [Condition("run_at", one.op, one.value) for one in ends if one.op in _ABOVE]  # not before its death
        waiting = replace(query, of="live", where=(*where, *due))
        return [(letters.select, waiting), (letters.select, replace(query, of="history", where=(*where, *ends)))]


def _names_places(condition: Condition) -> bool:
    """Return True for a condition that says where the jobs lie."""
    return condition.field == "passed" or (condition.field == "queue" and condition.op != "=")


class _Letters:
    """Reads the dead letters of a query that died in a queue, or lie there; None: in any."""

    def __init__(self, store: Store, queue: str | None, ends: Sequence[Condition]) -> None:
        self._store, self._queue, self._ends = store, queue, ends

    def select(self, query: Query) -> Page:
        columns = tuple(dict.fromkeys((*query.columns, *_NEEDED))) if query.columns else ()
        page = self._store.select(replace(query, columns=columns))
        rows = [row[: len(query.columns)] if columns else row for row in page.rows if self._is_sought(columns, row)]
        return page._replace(rows=rows)

    def _is_sought(self, columns: Sequence[str], row: Any) -> bool:
        job_id, queue, headers, finished_at = (
            (row[columns.index(name)] for name in _NEEDED) if columns else (getattr(row, name) for name in _NEEDED)
        )
        death = death_in(job_id, headers)
        if death is None or (self._queue is not None and self._queue not in (death.queue, queue)):
            return False
        return finished_at is not None or all(COMPARE[one.op](death.at, one.value) for one in self._ends)


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

    def work(self, queue: str, sizes: Sizes) -> Sizes:
        """Return the sizes of a queue without its dead letters: the jobs that someone should work on."""
        left = self.lying.get(queue, 0)
        total = sizes.total - left
        ready, left = max(0, sizes.ready - left), max(0, left - sizes.ready)
        scheduled, left = max(0, sizes.scheduled - left), max(0, left - sizes.scheduled)
        return Sizes(max(sizes.running, total), ready, scheduled, max(0, sizes.waiting - left), sizes.running)


def read_letters(store: Store, settings: Sequence[QueueSettings], stats: Mapping[str, QueueStats]) -> Letters:
    """Read the newest dead letters in the dead-letter queues of these; nothing where no job is queued there."""
    places = letter_queues(settings)
    queued = {name: stats[name].states.total - stats[name].states.running for name in places if name in stats}
    names = tuple(sorted(name for name, jobs in queued.items() if jobs))
    if not names:
        return Letters(places=places)
    where = Condition("queue", "in", names), _DEAD
    rows = store.select(Query("live", where, limit=LETTERS_MAX, columns=("id", "queue", "priority", "headers"))).rows
    found = [
        Letter(job_id, place, death.queue, priority, death.at)
        for job_id, place, priority, headers in rows
        if (death := death_in(job_id, headers)) is not None
    ]
    whole = len(rows) < LETTERS_MAX
    lying = Counter(one.place for one in found) if whole else {name: queued[name] for name in names}
    return Letters(tuple(found), whole, {name: min(count, queued[name]) for name, count in lying.items()}, places)
