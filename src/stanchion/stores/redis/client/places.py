"""The queues of a store, and the queues where jobs were last seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.redis.client.server import Call, Server

_REMEMBERED = 16_384

_KEYS_AT_ONCE = 4096
"""Number of keys whose existence one command checks in the first round trip: about half a millisecond of the server.

So upkeep takes as many commands with a thousand idle queues as with ten.
"""
_TOGETHER = (256, 16, 1)
"""Queues in one command of each further round trip, for those among whose keys one is there."""


class Places:
    """The queues of a store, and the queue of each job that this process has seen recently."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._queue_of: dict[str, str] = {}
        self._listed: set[str] = set()

    def queues(self) -> list[str]:
        """Return the names of all queues."""
        found = self._server.command("SMEMBERS", self._server.keys.own("queues"))
        return sorted(name.decode() for name in found)

    def with_any(self, queues: Sequence[str], *keys: str) -> list[str]:
        """Return the queues that have any of these keys, in this order: Redis deletes empty ones.

        One command asks for many idle queues; in a cluster, where they are on several nodes, one for each.
        """
        groups: list[Sequence[str]] = [list(queues)] if queues else []
        found: set[str] = set()
        for most in (1,) if self._server.address.cluster else (max(1, _KEYS_AT_ONCE // len(keys)), *_TOGETHER):
            groups = [part for group in groups for part in chunks(group, most)]
            asked = [[self._server.keys.queue(queue) + key for queue in part for key in keys] for part in groups]
            there = self._server.all([Call(("EXISTS", *names)) for names in asked])
            groups = [part for part, number in zip(groups, there, strict=True) if number]
            if most == 1:
                found = {queue for part in groups for queue in part}
        return [queue for queue in queues if queue in found]

    def list_queue(self, queue: str, *, again: bool = False) -> None:
        """Add the queue to the list that recovery and upkeep process."""
        if again or queue not in self._listed:
            listed = self._server.keys.own("queues")
            # A server out of memory refuses SADD, even for present members.
            if not self._server.command("SISMEMBER", listed, queue):
                self._server.command("SADD", listed, queue)
            self._listed.add(queue)

    def unlist_queue(self, queue: str) -> None:
        """Remove a deleted queue from the list that recovery and upkeep process, unless it was made again."""
        self._listed.discard(queue)
        self._server.command("SREM", self._server.keys.own("queues"), queue)
        if self._server.command("EXISTS", self._server.keys.queue(queue) + "settings"):
            self.list_queue(queue, again=True)

    def remember(self, queue: str, ids: Iterable[str]) -> None:
        """Remember the queue of these jobs; a wrong entry only costs a search."""
        self._queue_of.update(dict.fromkeys(ids, queue))
        if len(self._queue_of) > _REMEMBERED:
            for job_id in list(islice(self._queue_of, len(self._queue_of) // 2)):
                self._queue_of.pop(job_id, None)

    def queue_of(self, job_id: str) -> str | None:
        """Return the queue where a job was last seen, or None."""
        return self._queue_of.get(job_id)
