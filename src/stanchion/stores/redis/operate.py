"""Jobs deleted and adopted, and upkeep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stanchion.stores.cas.chunks import chunks, grouped
from stanchion.stores.cas.entries import Entry, FollowUp, entry_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.records.jobs import SECOND, JobRef, JobRow, JobState
from stanchion.stores.redis.client.rows import state_text, whole_body
from stanchion.stores.redis.flows.flows import Flows
from stanchion.stores.redis.jobs import Jobs, entry_texts
from stanchion.stores.redis.queues import Queues
from stanchion.stores.redis.staging import StageRows
from stanchion.stores.redis.workers import Workers
from stanchion.stores.rules.capacity.shapes import FEW
from stanchion.stores.rules.expiry import end_overdue
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, purge_each, remove_expired

_SCRIPT_JOBS_MAX = 1000
_PURGE_JOBS_MAX = 2000
_AGAIN_SECONDS = 60
"""Seconds after which an expired job that runs is looked at again."""
_KEYS_KEPT_SECONDS = 3600
"""Seconds that a queue remembers idempotency keys and jobs that left it: much longer than calls are repeated."""


class _Leaving(NamedTuple):
    """A job to delete, as it was read, with the outbox entry of its deletion."""

    ref: JobRef
    seen: Seen
    freed: Entry | None


class Removal:
    """Deletes jobs that are unchanged since they were read."""

    def __init__(self, jobs: Jobs, follow_up: FollowUp) -> None:
        self._jobs, self._follow_up = jobs, follow_up

    def delete(self, refs: Sequence[JobRef]) -> list[bool]:
        """Delete jobs that are unchanged since they were read, finished or queued; return for each whether it was."""
        deleted: set[JobRef] = set()
        left, tried = list(dict.fromkeys(refs)), set[JobRef]()
        while left:
            now, found = self._jobs.read([ref.id for ref in left])
            deleted |= {ref for ref in tried if ref.id not in found}
            by_queue: dict[str, list[_Leaving]] = {}
            for ref in left:
                seen = found.get(ref.id)
                if seen is not None and seen.row.ref == ref and seen.row.state != JobState.RUNNING:
                    freed = entry_of(seen.row._replace(flow_node=None), None, None, None, now)
                    by_queue.setdefault(seen.row.queue, []).append(_Leaving(ref, seen, freed))
            left, tried = [], set()
            for queue, group in by_queue.items():
                for part in chunks(group, _SCRIPT_JOBS_MAX):
                    gone, again = self._delete_in(queue, part)
                    deleted |= gone
                    changed = [one.ref for one in part if one.ref not in gone]
                    left += changed
                    tried |= set(changed if again else ())
        return [ref in deleted for ref in refs]

    def _delete_in(self, queue: str, jobs: Sequence[_Leaving]) -> tuple[set[JobRef], bool]:
        """Delete the unchanged jobs; return whether a first try, whose reply was lost, may have deleted others."""
        texts = [text for ref, seen, entry in jobs for text in (ref.id, seen.version, *entry_texts(entry))]
        key = self._jobs.server.keys.queue(queue)
        answers, again = self._jobs.server.call(
            lambda again: (self._jobs.server.run("delete_jobs", key, *texts), again)
        )
        gone = [one for one, answer in zip(jobs, answers, strict=True) if answer]
        self._follow_up([one.freed for one in gone if one.freed])
        return {one.ref for one in gone}, again


class Adoption:
    """Stores jobs of other stores."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store the jobs unchanged; return False for each whose key a live job has."""
        here: dict[str, bool] = {}
        for queue, group in grouped(rows, lambda row: row.queue).items():
            self._jobs.places.list_queue(queue)
            self._jobs.announce(group)
            for part in chunks(group, _SCRIPT_JOBS_MAX):
                arguments = [text for row in part for text in (row.id, state_text(row, 0), whole_body(row))]
                *answers, made = self._jobs.script("adopt", queue, *arguments)
                if made:
                    self._jobs.places.list_queue(queue, again=True)
                here.update(zip((row.id for row in part), map(bool, answers), strict=True))
                self._jobs.list_expiring(part)
        return [here[row.id] for row in rows]


class Overdue:
    """Ends jobs that have expired."""

    def __init__(self, jobs: Jobs, end: Callable[[Sequence[str]], list[str]]) -> None:
        """`end`: ends those of some jobs that have expired, and returns those that may expire later."""
        self._jobs, self._end = jobs, end

    def end(self, queue: str, budget: Budget) -> None:
        """End the expired jobs of a queue, as far as time allows."""
        end_overdue(lambda most: self._end_some(queue, most), budget)

    def _end_some(self, queue: str, most: int) -> int:
        server, now = self._jobs.server, self._jobs.now()
        of_queue = server.keys.queue(queue)
        key = of_queue + "overdue"
        ids = [one.decode() for one in server.command("ZRANGEBYSCORE", key, "-inf", now, "LIMIT", 0, most)]
        # Most have ended in time: only live ones are read, as any other is looked for in all queues.
        live = server.command("HMGET", of_queue + "live", *ids) if ids else []
        here = [one for one, state in zip(ids, live, strict=True) if state is not None]
        later = self._end(here) if here else []
        if later:  # looked at again: they run, and may be given back, or the clock was set back
            server.command("ZADD", key, *(one for job in later for one in (now + _AGAIN_SECONDS * SECOND, job)))
        if ended := [one for one in ids if one not in later]:
            server.command("ZREM", key, *ended)
        return len(ids)


class Upkeep:
    """Periodic upkeep. `recoveries`: complete what dead processes left unfinished."""

    def __init__(
        self,
        jobs: Jobs,
        recoveries: Sequence[Callable[[], None]],
        queues: Queues,
        workers: Workers,
        flows: Flows,
        stage: StageRows,
        overdue: Overdue,
    ) -> None:
        self._jobs, self._recoveries, self._overdue = jobs, recoveries, overdue
        self._queues, self._workers, self._flows, self._stage = queues, workers, flows, stage
        self._known: set[str] = set()
        """Queues that this process has maintained at least once; idle ones are left alone from then on."""

    def recover_outbox(self) -> None:
        """Complete what dead processes left unfinished."""
        places = self._jobs.places
        for queue in places.with_any(places.queues(), "leaving") if self._jobs.server.address.cluster else ():
            # Deliver first: a job that waits in a queue of another cluster slot must be there to be granted its node.
            self._jobs.deliver(queue)
        for recover in self._recoveries:
            recover()

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Purge history beyond its retention, end expired jobs, deliver jobs in transit, remove expired queues.

        Also correct the stored shape of each queue.
        """
        names, budget = self._jobs.places.queues(), Budget(seconds)
        # Purge first: the rest may need memory that the server does not have.
        behind = purge_each(
            lambda queue: self._queues.purge(queue, limit=_PURGE_JOBS_MAX),
            self._jobs.places.with_any(names, "ended"),
            *(_PURGE_JOBS_MAX, budget),
        )
        for queue in self._jobs.places.with_any(names, "overdue"):
            self._overdue.end(queue, budget)
        self.recover_outbox()  # must run before old idempotency keys are deleted; it delivers first
        self._flows.forget_flows()
        self._stage.forget_stages()
        remove_expired(self._queues, self._queues.purge)
        now, server = self._jobs.now(), self._jobs.server
        new = [name for name in names if name not in self._known]
        busy = {*self._jobs.places.with_any(names, "live", "orders", "shapes", "arrived", "gone", "batches"), *new}
        self._known = {*names}
        for queue in sorted(busy):
            for marks in ("arrived", "gone"):
                old = now - _KEYS_KEPT_SECONDS * SECOND
                server.command("ZREMRANGEBYSCORE", server.keys.queue(queue) + marks, "-inf", old)
            self._jobs.script("forget_batches", queue, now - _KEYS_KEPT_SECONDS * SECOND)
            self._jobs.script("reshape", queue, FEW)
        self._workers.forget_dead(now)
        return behind
