"""Looking at the jobs of a Redis database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice

from stanchion.stores.cas.entries import as_reserved
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Find, Scan
from stanchion.stores.redis.claim import Batches
from stanchion.stores.redis.client.rows import rows_in
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.redis.nodes import Nodes
from stanchion.stores.rules.claims import holds
from stanchion.stores.rules.query import PAGE, checked, cut, matches, met, queues_of

_LOOKED_AT = 1000
_HIGHEST = "~"
"""Comes after every id."""
_STATES = {
    "jobs": (QUEUED, JobState.WAITING.value, JobState.RUNNING.value),
    "history": (JobState.DONE.value, JobState.DEAD.value, JobState.CANCELLED.value),
}
_LETTERS = "letter"
"""Asks find.lua for dead letters too."""
_QUEUED = (JobState.SCHEDULED, JobState.READY)


class Queries:
    """Fetches, finds, and scans jobs."""

    def __init__(self, jobs: Jobs, nodes: Nodes, batches: Batches) -> None:
        self._jobs, self._nodes, self._batches = jobs, nodes, batches

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        return {job_id: as_reserved(seen.row) for job_id, seen in self._jobs.read(ids)[1].items()}

    def find(self, query: Find) -> list[JobRow]:
        """Search live jobs and history, newest id first."""
        queues = self._jobs.places.queues() if query.queue is None else [query.queue]
        found = (row for queue in queues for row in self._find_in(queue, query))
        rows = (
            islice(self._nodes.find_in_flow(query), query.limit)
            if query.flow is not None
            else nlargest(query.limit, found, key=_id)
        )
        return [as_reserved(row) for row in rows]

    def _find_in(self, queue: str, query: Find) -> list[JobRow]:
        states = {QUEUED if state in _QUEUED else state.value for state in query.states}
        if JobState.DEAD in query.states and not query.stored:
            states.add(_LETTERS)
        after, found = query.after or "", list[JobRow]()
        while len(found) < query.limit:
            clock, text, reached = self._jobs.script("find", queue, after, _LOOKED_AT, *states)
            now, after = int(clock), reached.decode()
            found += [row for row in rows_in(text.decode(), queue) if matches(row, query, now)]
            if not after:
                break
        return found[: query.limit]

    def in_hand(self, queue: str, token: str, first: str | None = None, last: str | None = None) -> list[JobRow]:
        """Return the running jobs under a token, with ids from `first` to `last` (None: no bound), by their ids."""
        ids = [
            job_id
            for job_id in self._batches.ids(queue, token)
            if (first is None or job_id >= first) and (last is None or job_id <= last)
        ]
        seen: dict[str, Seen] = {}
        self._jobs.read_in(queue, ids, seen)
        now = self._jobs.now()
        rows = (seen[job_id].row for job_id in ids if job_id in seen)
        return [as_reserved(row) for row in rows if holds(row, token, now)]

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        """Give all jobs that meet the conditions, queue by queue, newest first, each page by a script of its own."""
        lowest, highest = _bounds(checked(scan))
        for queue in queues_of(scan, self._jobs.places.queues()):
            reached = highest
            while reached > lowest:
                clock, text, end = self._jobs.script("find", queue, reached, PAGE, *_STATES[scan.of])
                rows = rows_in(text.decode(), queue)
                if page := [as_reserved(row) for row in rows if met(row, scan, int(clock))]:
                    yield page
                reached = end.decode()

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        """Cut a scan at ids that lie about as far apart in each of its queues, and the queues among the parts."""
        server, firsts = self._jobs.server, list[str]()
        for queue in queues_of(checked(scan), self._jobs.places.queues()) if parts > 1 else ():
            ids = server.keys.queue(queue) + "ids"
            known = int(server.command("ZCARD", ids))
            for place in {n * known // parts for n in range(parts)} if known else ():
                firsts += [one.decode() for one in server.command("ZRANGE", ids, place, place)]
        firsts.sort()
        return cut(scan, (firsts[n * len(firsts) // parts] for n in range(parts))) if firsts else [scan]


def _id(row: JobRow) -> str:
    return row.id


def _bounds(scan: Scan) -> tuple[str, str]:
    """Return an id below all those wanted, and one above them."""
    lowest, highest = "", _HIGHEST
    for field, op, value in scan.where:
        if field == "id" and op == ">=":
            lowest = max(lowest, value)
        elif field == "id" and op == "<":
            highest = min(highest, value)
    return lowest, highest
