"""Which queues there are, and in which of them jobs were seen last."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from stanchion.stores.redis.client.server import Server

_REMEMBERED = 65_536


class Places:
    """The queues of a store, and the queue of each job that this process has seen lately."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._queue_of: dict[str, str] = {}
        self._listed: set[str] = set()

    def queues(self) -> list[str]:
        """Return the names of all queues."""
        found = self._server.command("SMEMBERS", self._server.keys.own("queues"))
        return sorted(name.decode() for name in found)

    def list_queue(self, queue: str, *, anew: bool = False) -> None:
        """Make sure that the queue is among those that recovery and upkeep look at."""
        if anew or queue not in self._listed:
            listed = self._server.keys.own("queues")
            # A full server refuses SADD, also of what is there.
            if not self._server.command("SISMEMBER", listed, queue):
                self._server.command("SADD", listed, queue)
            self._listed.add(queue)

    def unlist_queue(self, queue: str) -> None:
        """Have a queue that was deleted not be looked at any more, unless it has been made again meanwhile."""
        self._listed.discard(queue)
        self._server.command("SREM", self._server.keys.own("queues"), queue)
        if self._server.command("EXISTS", self._server.keys.queue(queue) + "settings"):
            self.list_queue(queue, anew=True)

    def remember(self, queue: str, ids: Iterable[str]) -> None:
        """Note which queue these jobs are in; a wrong note costs a search, no more."""
        self._queue_of.update(dict.fromkeys(ids, queue))
        if len(self._queue_of) > _REMEMBERED:
            for job_id in list(islice(self._queue_of, len(self._queue_of) // 2)):
                self._queue_of.pop(job_id, None)

    def queue_of(self, job_id: str) -> str | None:
        """Return the queue in which a job was seen last."""
        return self._queue_of.get(job_id)

    def by_queue(self, ids: Iterable[str]) -> dict[str | None, list[str]]:
        """Group ids by the queue that they were seen in last; None for those never seen."""
        groups: dict[str | None, list[str]] = {}
        for job_id in ids:
            groups.setdefault(self._queue_of.get(job_id), []).append(job_id)
        return groups
