"""The Redis store: looking and operating, and the life of the store itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from heapq import nlargest
from itertools import islice
from typing import Any

from redis.exceptions import ResponseError

from stanchion.errors import SchemaMismatch, StoreUnavailable
from stanchion.stores.cas.mixins.jobs import Duty, Seen
from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.protocol import Listener
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.query import Find
from stanchion.stores.records.queues import QueueSettings, QueueStats, Stat
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.redis import CAPABILITIES
from stanchion.stores.redis.client.rows import body_text, rows_in, state_text
from stanchion.stores.redis.client.server import Call, Server
from stanchion.stores.redis.discarding import Discarding
from stanchion.stores.redis.expiring import FORGOTTEN_USE, ExpiringQueues
from stanchion.stores.redis.flows import Flowing
from stanchion.stores.redis.jobs import duty_texts, portions, settings_in, stored_setting
from stanchion.stores.redis.push import RedisJobs, refuse_to_join
from stanchion.stores.redis.query import Scanning
from stanchion.stores.redis.slots import Gating
from stanchion.stores.redis.staging import Staging
from stanchion.stores.redis.stats import Stats
from stanchion.stores.redis.workers import Workers
from stanchion.stores.rules.expiry import remove_expired
from stanchion.stores.rules.query import matches
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, purge_each

VERSION = 1
"""Of the keys and of what they hold."""

_LOOKED_AT = 1000
_PURGED = 2000
_MARKS_KEPT = 3600
"""Seconds for which a queue knows the jobs that left it: far longer than a call is repeated."""


class RedisStore(ExpiringQueues, Staging, Flowing, Gating, RedisJobs, Scanning, Discarding):
    """Jobs in Redis."""

    capabilities = CAPABILITIES

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._stats = Stats(server, self.key)
        self._workers = Workers(self)

    @property
    def skew(self) -> float:
        """Seconds added to the server's clock, for tests."""
        return self.server.skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self.server.skew = seconds

    # -- life of the store itself

    def setup(self, *, dry_run: bool = False) -> list[str]:
        """Write the version of the keys; there is nothing else to make."""
        step = f"SET {self._version_key} {VERSION} NX"
        if dry_run:
            return [step] if self._version() is None else []
        done = self.server.command("SET", self._version_key, VERSION, "NX")
        self.check()
        return [step] if done else []

    def _version(self) -> int | None:
        """Return the version of the keys; None when there is none, or no server to ask."""
        with suppress(StoreUnavailable):
            found = self.server.command("GET", self._version_key)
            return None if found is None else int(found)
        return None

    @property
    def _version_key(self) -> str:
        return self.own_key("version")

    def check(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch unless the store can be used.

        Writes nothing: a full server refuses that, and has to open to be emptied.
        """
        found = int(self.server.command("GET", self._version_key) or VERSION)
        if found > VERSION:
            raise SchemaMismatch(
                f"the keys are of version {found}, newer than this release's {VERSION}; "
                f"upgrade this process: pip install -U stanchion"
            )
        self._refuse_eviction()

    def _refuse_eviction(self) -> None:
        """Refuse a server that would delete jobs when its memory is full."""
        try:
            infos = self.server.infos("memory")
        except ResponseError:  # some hosted servers don't tell
            return
        for info in infos:
            policy = str(info.get("maxmemory_policy", "noeviction"))
            if policy.startswith("allkeys"):
                raise StoreUnavailable(
                    f"the server {self.server.address.shown} deletes keys when its memory is full "
                    f"(maxmemory-policy {policy}), jobs too; set it: CONFIG SET maxmemory-policy noeviction"
                )

    def close(self) -> None:
        """Release connections; a later call opens them anew."""
        self.signals.close()
        self.server.close()

    def transaction(self) -> AbstractContextManager[Any]:
        """Raise CannotJoin."""
        refuse_to_join()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        """Make the queue if need be, apply the changes, return its settings."""
        self.list_queue(queue, anew=True)
        given = [text for name, value in changes.items() for text in stored_setting(name, value)]
        given += FORGOTTEN_USE if "expires" in changes else ()
        flat = self.script("configure", queue, *given)
        return settings_in(queue, dict(zip(flat[::2], flat[1::2], strict=True)))

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of those of these names that there are."""
        listed = self.own_key("queues")
        wanted = self.queue_names() if names is None else sorted(set(names))
        asked = [Call(("SISMEMBER", listed, name)) for name in wanted] if names is not None else []
        found = self.server.all([*asked, *(Call(("HGETALL", self.key(name) + "settings")) for name in wanted)])
        there = found[: len(asked)] or [1] * len(wanted)
        each = zip(wanted, there, found[len(asked) :], strict=True)
        return [settings_in(name, stored) for name, known, stored in each if known]

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        ended = self.end_bound(queue)
        jobs = self.script("delete", queue)
        self.unlist_queue(queue)
        return ended + int(jobs)

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        return {job_id: in_hand(seen.row) for job_id, seen in self.look(ids)[1].items()}

    def find(self, query: Find) -> list[JobRow]:
        """Search live jobs and history, newest id first."""
        queues = self.queue_names() if query.queue is None else [query.queue]
        found = (row for queue in queues for row in self._find_in(queue, query))
        rows = (
            islice(self.find_in_flow(query), query.limit)
            if query.flow is not None
            else nlargest(query.limit, found, key=_id)
        )
        return [in_hand(row) for row in rows]

    def _find_in(self, queue: str, query: Find) -> list[JobRow]:
        states = {QUEUED if state in _QUEUED else state.value for state in query.states}
        if JobState.DEAD in query.states and not query.stored:
            states.add(_LETTERS)
        after, found = query.after or "", list[JobRow]()
        while len(found) < query.limit:
            clock, text, reached = self.script("find", queue, after, _LOOKED_AT, *states)
            now, after = int(clock), reached.decode()
            found += [row for row in rows_in(text.decode(), queue) if matches(row, query, now)]
            if not after:
                break
        return found[: query.limit]

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        return self._stats.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        return self._stats.lane_depths(queue, lanes, at_most)

    # -- workers

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive."""
        return self._workers.beat(workers)

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""
        self._workers.leave(worker)

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""
        return self._workers.workers()

    def known_workers(self) -> dict[str, WorkerRow]:
        return self._workers.known_workers()

    def suspects(self, workers: Mapping[str, WorkerRow], now: int, limit: int) -> list[str]:
        return self._workers.suspects(workers, now, limit)

    # -- operating

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended `older_than` seconds ago (None: the queue's ttl)."""
        return int(self.script("purge", queue, "" if older_than is None else older_than, limit))

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Purge what history no longer keeps, bring jobs to where they are going, remove queues that have expired."""
        names = self.queue_names()
        # First: the rest may need memory, and the server have none.
        behind = purge_each(lambda queue: self.purge(queue, limit=_PURGED), names, _PURGED, Budget(seconds))
        self.sweep()  # what is done late is known by marks: they must not be forgotten before
        for queue in names:
            self.deliver(queue)
        self.forget_flows()
        self.forget_stages()
        remove_expired(self)
        now = self.now()
        for queue in names:
            for marks in ("arrived", "gone"):
                self.server.command("ZREMRANGEBYSCORE", self.key(queue) + marks, "-inf", now - _MARKS_KEPT * SECOND)
            self.script("let_go", queue, now - _MARKS_KEPT * SECOND)
        self._workers.forget_dead(now)
        return behind

    # -- from store to store

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there; False for each whose key a live job has."""
        here: dict[str, bool] = {}
        by_queue: dict[str, list[JobRow]] = {}
        for row in rows:
            by_queue.setdefault(row.queue, []).append(row)
        for queue, group in by_queue.items():
            self.list_queue(queue)
            self.announce(group)
            for part in portions(group, _LOOKED_AT):
                arguments = [text for row in part for text in (row.id, state_text(row, 0), body_text(row))]
                *answers, made = self.script("adopt", queue, *arguments)
                if made:
                    self.list_queue(queue, anew=True)
                here.update(zip((row.id for row in part), map(bool, answers), strict=True))
        return [here[row.id] for row in rows]

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, queued or finished; return the ids of those deleted."""
        taken: dict[str, None] = {}
        left = list(dict.fromkeys(ids))
        while left:
            now, found = self.look(left)
            by_queue: dict[str, list[tuple[Seen, Duty | None]]] = {}
            for seen in found.values():
                if seen.row.state != JobState.RUNNING:
                    freed = self.duty_of(seen.row._replace(flow=None), None, None, None, now)
                    by_queue.setdefault(seen.row.queue, []).append((seen, freed))
            left = []
            for queue, group in by_queue.items():
                for part in portions(group, _LOOKED_AT):
                    texts = [text for seen, duty in part for text in (seen.row.id, seen.version, *duty_texts(duty))]
                    answers = list(zip(part, self.script("take", queue, *texts), strict=True))
                    self.follow_up([duty for (_, duty), done in answers if done and duty])
                    taken.update((seen.row.id, None) for (seen, _), done in answers if done)
                    left += [seen.row.id for (seen, _), done in answers if not done]
        return list(taken)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        """Start listening for work in these queues, and for ends of jobs in those of `finished`."""
        return self.signals.listen(queues, finished, interchangeable=interchangeable)


def _id(row: JobRow) -> str:
    return row.id


_LETTERS = "letter"
"""Asks find.lua for dead letters too."""
_QUEUED = (JobState.SCHEDULED, JobState.READY)
