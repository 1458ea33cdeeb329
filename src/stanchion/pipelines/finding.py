"""Searches for the items of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice

from stanchion.context.context import Context
from stanchion.core.checks import refuse_unknown
from stanchion.jobs.job import Job
from stanchion.jobs.search import PageOptions, query_of
from stanchion.pipelines.topology import Topology
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.jobs import state_of

_IDS = 2000
"""Ids of a queue per read."""


def checked_query(search: PageOptions) -> Query:
    """Return the checked search for items of a pipeline."""
    refuse_unknown(search, PageOptions.__optional_keys__, "option of a search")
    return query_of(search)


def found(context: Context, topology: Topology, passed: str | None, query: Query) -> list[Job]:
    """Return the items that meet a query, newest first; `passed`: items that have passed this queue."""
    now = context.store.now()
    several = [_of_queue(context.store, one) for one in queries_by_queue(topology, passed, query)]
    rows = merge(*several, key=lambda row: row.id, reverse=True)
    return [Job(context, row, state_of(row, now)) for row in islice(rows, query.limit)]


def found_ids(
    store: Store, topology: Topology, passed: str | None, query: Query, limit: int | None = None
) -> Iterator[str]:
    """Yield the ids of the items that meet a query, oldest first, in bounded memory; `limit`: of the newest only."""
    newest = limit is not None
    size = min(limit or _IDS, _IDS)
    wanted = replace(query, columns=("id",), order="newest" if newest else "id", limit=size)
    several = [_ids_of_queue(store, one) for one in queries_by_queue(topology, passed, wanted)]
    ids = merge(*several, reverse=newest)
    return ids if limit is None else reversed(list(islice(ids, limit)))


def queries_by_queue(topology: Topology, passed: str | None, query: Query) -> Iterator[Query]:
    """Yield a query for each queue where such items may be.

    A page of it is a walk along the ids of the queue: it reads few items more than it returns if most have passed.
    """
    within = query if passed is None else query.also(Condition("passed", "=", passed))
    for queue in topology.queues_after(passed):
        yield within.also(Condition("queue", "=", queue))


def _of_queue(store: Store, query: Query) -> Iterator[JobRow]:
    for page in pages(store, query):
        yield from page


def _ids_of_queue(store: Store, query: Query) -> Iterator[str]:
    for row in _of_queue(store, query):
        yield row[0]  # the only column
