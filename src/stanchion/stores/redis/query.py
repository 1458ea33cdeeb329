"""Reading all jobs of a Redis database."""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.records.jobs import QUEUED, JobRow, JobState
from stanchion.stores.records.query import Scan
from stanchion.stores.redis.client.rows import rows_in
from stanchion.stores.redis.jobs import RedisBase
from stanchion.stores.rules.query import PAGE, checked, cut, met, queues_of

_HIGHEST = "~"
"""Comes after every id."""
_STATES = {
    "jobs": (QUEUED, JobState.WAITING.value, JobState.RUNNING.value),
    "history": (JobState.DONE.value, JobState.DEAD.value, JobState.CANCELLED.value),
}


class Scanning(RedisBase):
    """Gives the jobs of a scan queue by queue, newest first, each page by a script of its own."""

    def scan(self, scan: Scan) -> Iterator[list[JobRow]]:
        """Give all jobs that meet the conditions, page by page."""
        lowest, highest = _bounds(checked(scan))
        for queue in queues_of(scan, self.queue_names()):
            reached = highest
            while reached > lowest:
                clock, text, end = self.script("find", queue, reached, PAGE, *_STATES[scan.of])
                rows = rows_in(text.decode(), queue)
                if page := [in_hand(row) for row in rows if met(row, scan, int(clock))]:
                    yield page
                reached = end.decode()

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        """Cut a scan at ids that lie about as far apart in each of its queues, and the queues among the parts."""
        firsts: list[str] = []
        for queue in queues_of(checked(scan), self.queue_names()) if parts > 1 else ():
            ids = self.key(queue) + "ids"
            known = int(self.server.command("ZCARD", ids))
            for place in {n * known // parts for n in range(parts)} if known else ():
                firsts += [one.decode() for one in self.server.command("ZRANGE", ids, place, place)]
        firsts.sort()
        return cut(scan, (firsts[n * len(firsts) // parts] for n in range(parts))) if firsts else [scan]


def _bounds(scan: Scan) -> tuple[str, str]:
    """Return an id below all those wanted, and one above them."""
    lowest, highest = "", _HIGHEST
    for field, op, value in scan.where:
        if field == "id" and op == ">=":
            lowest = max(lowest, value)
        elif field == "id" and op == "<":
            highest = min(highest, value)
    return lowest, highest
