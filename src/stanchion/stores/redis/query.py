"""Reading the jobs of a Redis database: by ids, by the conditions of a query, and split queries.

The ids of each queue are in an index. A page walks along all these indexes together, and the scripts filter by state;
other conditions are checked here. A query that names few jobs, by a token, a slot, an order key or a flow, reads only
these jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import as_reserved
from stanchion.stores.records.jobs import QUEUED, UNLANED, JobRow, JobState
from stanchion.stores.records.query import Horizon, Page, Query
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.rows import rows_in
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.flows.nodes import Nodes
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.orders import Orders
from stanchion.stores.redis.slots import SlotRows
from stanchion.stores.rules.query import (
    NEEDS,
    PAGE,
    are_letters,
    behind,
    checked,
    cut,
    cut_off,
    evenly,
    met,
    queues_of,
    states_in,
    value_of,
)

_READ_MIN = 100
_READ_MAX = 4000
"""Jobs of all queues read in one call when few of them may meet the conditions."""
_ONLY_RUNNING = frozenset({JobState.RUNNING})
_LETTER = "letter"
"""Asks the script for dead letters too."""
_LIVE = (QUEUED, JobState.WAITING.value, JobState.RUNNING.value)
_FINAL = (JobState.DONE.value, JobState.DEAD.value, JobState.CANCELLED.value)


class Queries:
    """Reads jobs, and changes nothing."""

    def __init__(
        self, jobs: Jobs, nodes: Nodes, ids_reserved: Callable[[str, str], list[str]], slots: SlotRows
    ) -> None:
        self._jobs, self._nodes, self._ids_reserved, self._slots = jobs, nodes, ids_reserved, slots
        self._orders = Orders(jobs, slots)

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return the jobs that are live or in history, by id."""
        return {job_id: as_reserved(seen.row) for job_id, seen in self._jobs.read(ids)[1].items()}

    def select(self, query: Query) -> Page:
        """Return a page of the jobs that meet the conditions."""
        horizon = Horizon(self._jobs.now()) if query.horizon else None
        return self._page(query)._replace(horizon=horizon)

    def _page(self, query: Query) -> Page:
        named = None if checked(query).order in NEEDS else self._named(query)
        if named is not None and query.columns == ("id",) and {one.field for one in query.where} == {"queue", "token"}:
            return cut_off([_NOTHING._replace(id=job_id) for job_id in named[: query.limit]], query)
        found: list[JobRow] = []
        # The holders of a slot are stored with the slot.
        such = query if named is None else replace(query, where=tuple(c for c in query.where if c.field != "holds"))
        for now, rows in self._candidates(query, named):
            found += [row for row in map(as_reserved, rows) if met(row, such, now)]
            if len(found) >= query.limit:
                break
        return cut_off(found, query)

    def _candidates(self, query: Query, named: list[str] | None) -> Iterator[tuple[int, list[JobRow]]]:
        """Yield the clock, and the next candidates after the cursor, in order."""
        if query.order in NEEDS:
            yield from ((now, [one.row for one in seen]) for now, seen in self._orders.jobs_of(query))
        elif named is not None:
            queue = value_of(query, "queue")
            for part in chunks(named, max(query.limit, _READ_MIN)):
                now, seen = self._jobs.read(part, None if queue is None else [queue] * len(part))
                yield now, [seen[job_id].row for job_id in part if job_id in seen]
        elif (root := value_of(query, "flow_root")) is not None:
            low, high = _bounds(query)
            yield from self._nodes.jobs_of_flow(root, low, high, newest=query.order == "newest")
        else:
            yield from self._walk(query)

    def _named(self, query: Query) -> list[str] | None:
        """Return the ids of the jobs that a query names, after its cursor and in order; None if it names none."""
        queue, ids = value_of(query, "queue"), list[str]()
        if (slot := value_of(query, "holds")) is not None:
            ids = [hold.job for hold in self._slots.holders([slot])[0]]
        elif query.of == "live" and queue is not None and (token := value_of(query, "token")) is not None:
            ids = self._ids_reserved(queue, token)
            self._jobs.places.remember(queue, ids)
        elif query.of == "live" and queue is not None and (key := value_of(query, "order_key")) is not None:
            index = self._jobs.server.keys.queue(queue) + "orders"
            entries = self._jobs.server.command("ZRANGEBYLEX", index, f"[{key}{FIELD}", f"({key} ")
            ids = [entry.decode().rpartition(FIELD)[2] for entry in entries]
            self._jobs.places.remember(queue, ids)
        elif (named := value_of(query, "id")) is not None:
            ids = [named]
        elif query.of == "live" and states_in(query) == _ONLY_RUNNING:
            ids = self._running(queues_of(query, self._jobs.places.queues()))
        elif several := [one.value for one in query.where if one.field == "id" and one.op == "in"]:
            ids = list(several[0])
        else:
            return None
        newest, begins = query.order == "newest", "".join(behind(query))
        further = (job_id for job_id in set(ids) if not begins or (job_id < begins if newest else job_id > begins))
        return sorted(further, reverse=newest)

    def _running(self, queues: Sequence[str]) -> list[str]:
        """Return the ids of the running jobs of these queues."""
        server = self._jobs.server
        indexes = [Call(("ZRANGE", f"{server.keys.queue(queue)}running", 0, -1)) for queue in queues]
        ids: list[str] = []
        for queue, entries in zip(queues, server.all(indexes), strict=True):
            here = [entry.decode().rpartition(FIELD)[2] for entry in entries]
            self._jobs.places.remember(queue, here)
            ids += here
        return ids

    def _walk(self, query: Query) -> Iterator[tuple[int, list[JobRow]]]:
        """Walk along the ids of all queues together, with bounded reads that make up a page."""
        named, states, newest = value_of(query, "queue"), _stored(query), query.order == "newest"
        queues = [named] if named is not None else queues_of(query, self._jobs.places.queues())
        index = "ids"
        if states == [_LETTER] or are_letters(query):
            index, queues = "letters", self._jobs.places.with_any(queues, "letters")
        low, high = _bounds(query)
        at_once = _read_size(query, len(queues))
        reached = dict.fromkeys(queues, high if newest else low)
        waiting, going_on = dict[str, JobRow](), queues
        while going_on and states is not None:
            asked = {queue: (low, reached[queue]) if newest else (reached[queue], high) for queue in going_on}
            server, now = self._jobs.server, 0
            scripts = [
                server.script("walk", server.keys.queue(queue), query.order, *bounds, at_once, index, *states)
                for queue, bounds in asked.items()
            ]
            for queue, (clock, text, last) in zip(asked, server.all(scripts), strict=True):
                now = int(clock)
                waiting |= {row.id: row for row in rows_in(text.decode(), queue)}
                if last:
                    reached[queue] = f"({last.decode()}"
                else:
                    del reached[queue]
            # A job is returned only after all queues were read up to its id.
            ends = [end[1:] for end in reached.values()]
            horizon = (max if newest else min)(ends) if ends else None
            ready = [one for one in waiting if horizon is None or (one >= horizon if newest else one <= horizon)]
            yield now, [waiting.pop(one) for one in sorted(ready, reverse=newest)]
            going_on = [queue for queue, end in reached.items() if end[1:] == horizon]

    def partition(self, query: Query, parts: int) -> list[Query]:
        """Split a query at ids that are about equally spaced in each of its queues."""
        server, firsts = self._jobs.server, list[str]()
        for queue in queues_of(checked(query), self._jobs.places.queues()) if parts > 1 else ():
            ids = server.keys.queue(queue) + "ids"
            known = int(server.command("ZCARD", ids))
            for place in {n * known // parts for n in range(parts)} if known else ():
                firsts += [one.decode() for one in server.command("ZRANGE", ids, place, place)]
        return cut(query, evenly(sorted(firsts), parts)) if firsts else [query]


_NOTHING = JobRow("", "", UNLANED, "", 0, 0, 0, 0, "")


def _read_size(query: Query, queues: int) -> int:
    """Return the number of jobs to read from each queue in one call."""
    share = query.limit if queues < 2 else 2 * query.limit // queues
    if query.text is not None or any(one.field not in ("queue", "id") for one in query.where):
        share = max(share, _READ_MAX // max(1, queues))
    return min(PAGE, max(_READ_MIN, share))


def _bounds(query: Query) -> tuple[str, str]:
    """Return the id bounds of a query after its cursor, in the syntax of ZRANGEBYLEX."""
    low, high = [("", "-")], [("~", "+")]
    for field, op, value in query.where:
        if field == "id" and op in (">", ">="):
            low.append((value, f"[{value}" if op == ">=" else f"({value}"))
        elif field == "id" and op in ("<", "<="):
            high.append((value, f"[{value}" if op == "<=" else f"({value}"))
    for begins in behind(query):
        (high if query.order == "newest" else low).append((begins, f"({begins}"))
    # At the same id, "(" excludes it, and sorts before "[".
    lowest = max(value for value, _ in low)
    highest = min(value for value, _ in high)
    return min(text for value, text in low if value == lowest), min(text for value, text in high if value == highest)


def _stored(query: Query) -> list[str] | None:
    """Return the stored states to pass to the script: empty for all, None if no job can match."""
    kept = {"live": _LIVE, "history": _FINAL, "all": (*_LIVE, *_FINAL)}[query.of]
    states = states_in(query)
    if states is None:
        return [] if query.of == "all" else list(kept)
    wanted = {QUEUED if state in (JobState.SCHEDULED, JobState.READY) else state.value for state in states}
    stored = sorted(wanted.intersection(kept))
    if JobState.DEAD in states and query.of != "history":
        stored.append(_LETTER)
    return stored or None
