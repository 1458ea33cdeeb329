"""Jobs of one Redis index in its order: by arrival at a slot, by end, and as claims take them.

An index returns the requested number of entries after the last one; entries of several keys are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from stanchion.stores.cas.entries import key_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.records.query import Query
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.slots import SlotRows
from stanchion.stores.rules.query import behind, queues_of, value_of

_HIGHEST_RANK = 5000
"""The prelude of the scripts subtracts a rank from this, to sort ranks as text."""

Entry = tuple[Any, ...]
"""The sort values of a job, with its id last."""

Found = Iterator[tuple[int, list[Seen]]]
"""The clock, and the next jobs."""


class Orders:
    """Reads jobs in the orders `arrival`, `finished` and `due`."""

    def __init__(self, jobs: Jobs, slots: SlotRows) -> None:
        self._jobs, self._slots, self._server = jobs, slots, jobs.server

    def jobs_of(self, query: Query) -> Found:
        """Yield the jobs of the index of a query, after its cursor and in its order."""
        if query.order == "arrival":
            slot = value_of(query, "waits_for")
            queues = self._slots.queues_at(slot)
            yield from self._read(query, None, partial(self._waiting, key_of(slot), queues))
            return
        if query.order == "finished":
            queue = value_of(query, "queue")
            known = [queue] if queue is not None else queues_of(query, self._jobs.places.queues())
            yield from self._read(query, queue, partial(self._finished, known, _within(query, "finished_at")))
            return
        queue = value_of(query, "queue")
        yield from self._read(query, queue, partial(self._due, self._server.keys.queue(queue), query))

    def _read(self, query: Query, queue: str | None, next_ones: Callable[[Entry, int], list[Entry]]) -> Found:
        last: Entry = behind(query)
        while entries := next_ones(last, query.limit):
            last = entries[-1]
            ids = [entry[-1] for entry in entries]
            seen: dict[str, Seen] = {}
            if queue is None:
                now, seen = self._jobs.read(ids)
            else:
                now = self._jobs.read_in(queue, ids, seen)
            yield now, [seen[job_id] for job_id in ids if job_id in seen]
            if len(entries) < query.limit:
                return

    def _waiting(self, key: str, queues: Sequence[str], last: Entry, most: int) -> list[Entry]:
        """Return the next waiters for a slot: waiting since, and id."""
        begin = f"({key}{FIELD}{last[0]:020d}{FIELD}{last[1]}" if last else f"[{key}{FIELD}"
        index = ((queue, self._server.keys.queue(queue) + "waits") for queue in queues)
        calls = {queue: Call(("ZRANGEBYLEX", name, begin, f"({key} ", "LIMIT", 0, most)) for queue, name in index}
        found: list[Entry] = []
        for queue, entries in zip(calls, self._server.all(list(calls.values())), strict=True):
            here = [entry.decode().split(FIELD)[-2:] for entry in entries]
            self._jobs.places.remember(queue, (job_id for _, job_id in here))
            found += [(int(since), job_id) for since, job_id in here]
        return sorted(found)[:most]

    def _finished(self, queues: Sequence[str], within: tuple[str, str], last: Entry, most: int) -> list[Entry]:
        """Return the next jobs that finished between two times: end, and id."""
        first, end = (str(last[0]) if last else within[0]), within[1]
        names = {queue: f"{self._server.keys.queue(queue)}ended" for queue in queues}
        calls = [Call(("ZRANGEBYSCORE", name, first, end, "WITHSCORES", "LIMIT", 0, most)) for name in names.values()]
        found: list[Entry] = []
        for (queue, name), given in zip(names.items(), self._server.all(calls), strict=True):
            here = _entries(given)
            if len(here) >= most and last:  # among them may be some that were given before
                here = self._next_of(name, last, most, end)
            self._jobs.places.remember(queue, (job_id for _, job_id in here))
            found += here
        return sorted(entry for entry in found if not last or entry > last)[:most]

    def _due(self, key: str, query: Query, last: Entry, most: int) -> list[Entry]:
        """Return the next queued jobs: rank, due time, and id."""
        lines = sorted(
            (_HIGHEST_RANK - int(rank), ready_list)
            for ready_list in (name.decode() for name in self._server.command("ZRANGE", f"{key}ready", 0, -1))
            for lane, _, rank in (ready_list.partition(":"),)
            if value_of(query, "lane") in (None, int(lane))
        )
        found: list[Entry] = []
        for rank, group in groupby(reversed(lines), key=lambda one: one[0]):
            if len(found) < most and (not last or rank <= last[0]) and value_of(query, "rank") in (None, rank):
                begin = last[1:] if last and rank == last[0] else ()
                keys = [f"{key}ready:{ready_list}" for _, ready_list in group]
                end = _within(query, "run_at")[1]
                found += [(rank, *entry) for entry in self._scored(keys, begin, most - len(found), end)]
        return found

    def _scored(self, keys: Sequence[str], last: Entry, most: int, end: str) -> list[Entry]:
        """Return the next entries of these sorted sets, by score and id, up to the score `end`."""
        found: list[Entry] = []
        for key in keys:
            found += self._next_of(key, last, most, end)
        return sorted(found)[:most]

    def _next_of(self, key: str, last: Entry, most: int, end: str = "+inf") -> list[Entry]:
        # Entries with the score of the last one are read again; at worst all of them have it.
        begin, asked = (last[0] if last else "-inf"), most
        while True:
            given = self._server.command("ZRANGEBYSCORE", key, begin, end, "WITHSCORES", "LIMIT", 0, asked)
            entries = _entries(given)
            further = [entry for entry in entries if not last or entry > last]
            if len(further) >= most or len(entries) < asked:
                return further[:most]
            asked *= 2


def _within(query: Query, field: str) -> tuple[str, str]:
    """Return the bounds of a time, as ZRANGEBYSCORE takes them."""
    asked = [(op, value) for name, op, value in query.where if name == field]
    low = [value for op, value in asked if op in (">", ">=", "=")]
    high = [value for op, value in asked if op in ("<", "<=", "=")]
    return str(max(low, default="-inf")), str(min(high, default="+inf"))


def _entries(given: Sequence[object]) -> list[Entry]:
    """Return members with whole scores as entries."""
    return [(int(float(score)), member.decode()) for member, score in _pairs(given)]


def _pairs(given: Sequence[Any]) -> Iterator[tuple[bytes, Any]]:
    """Yield members and scores, which clients return either as pairs or flat."""
    if given and isinstance(given[0], (tuple, list)):
        yield from ((member, score) for member, score in given)
    else:
        yield from zip(given[::2], given[1::2], strict=True)
