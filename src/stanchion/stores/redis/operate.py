"""Jobs deleted and adopted, and the upkeep of all that is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stanchion.stores.cas.entries import Entry, FollowUp, entry_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.cas.portions import portions
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.redis.client.rows import body_text, state_text
from stanchion.stores.redis.flows import Flows
from stanchion.stores.redis.jobs import Jobs, entry_texts
from stanchion.stores.redis.queues import Queues
from stanchion.stores.redis.staging import StageRows
from stanchion.stores.redis.workers import Workers
from stanchion.stores.rules.expiry import remove_expired
from stanchion.stores.rules.upkeep import Budget, purge_each

_AT_ONCE = 1000
_PURGED = 2000
_MARKS_KEPT = 3600
"""Seconds for which a queue knows the jobs that left it: far longer than a call is repeated."""


class Removal:
    """Deletes jobs as they were seen."""

    def __init__(self, jobs: Jobs, follow_up: FollowUp) -> None:
        self._jobs, self._follow_up = jobs, follow_up

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, queued or finished; return the ids of those deleted."""
        taken: dict[str, None] = {}
        left = list(dict.fromkeys(ids))
        while left:
            now, found = self._jobs.read(left)
            by_queue: dict[str, list[tuple[Seen, Entry | None]]] = {}
            for seen in found.values():
                if seen.row.state != JobState.RUNNING:
                    freed = entry_of(seen.row._replace(flow=None), None, None, None, now)
                    by_queue.setdefault(seen.row.queue, []).append((seen, freed))
            left = []
            for queue, group in by_queue.items():
                for part in portions(group, _AT_ONCE):
                    texts = [text for seen, entry in part for text in (seen.row.id, seen.version, *entry_texts(entry))]
                    answers = list(zip(part, self._jobs.script("take", queue, *texts), strict=True))
                    self._follow_up([entry for (_, entry), done in answers if done and entry])
                    taken.update((seen.row.id, None) for (seen, _), done in answers if done)
                    left += [seen.row.id for (seen, _), done in answers if not done]
        return list(taken)

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        wanted = set(ends)
        found = self._jobs.read(sorted({job_id for job_id, _ in wanted}))[1].values() if wanted else ()
        by_queue: dict[str, list[str]] = {}
        for seen in found:
            if (seen.row.id, seen.row.finished_at) in wanted:
                by_queue.setdefault(seen.row.queue, []).extend((seen.row.id, seen.version, "", ""))
        return sum(
            sum(map(int, self._jobs.script("take", queue, *part)))
            for queue, texts in by_queue.items()
            for part in portions(texts, 4 * _AT_ONCE)
        )


def adopt(jobs: Jobs, rows: Sequence[JobRow]) -> list[bool]:
    """Store jobs of another store as they are there; False for each whose key a live job has."""
    here: dict[str, bool] = {}
    by_queue: dict[str, list[JobRow]] = {}
    for row in rows:
        by_queue.setdefault(row.queue, []).append(row)
    for queue, group in by_queue.items():
        jobs.places.list_queue(queue)
        jobs.announce(group)
        for part in portions(group, _AT_ONCE):
            arguments = [text for row in part for text in (row.id, state_text(row, 0), body_text(row))]
            *answers, made = jobs.script("adopt", queue, *arguments)
            if made:
                jobs.places.list_queue(queue, anew=True)
            here.update(zip((row.id for row in part), map(bool, answers), strict=True))
    return [here[row.id] for row in rows]


class Upkeep:
    """What nobody asks for, done now and then. `recoveries`: what processes that have died may have left half done."""

    def __init__(
        self,
        jobs: Jobs,
        recoveries: Sequence[Callable[[], None]],
        queues: Queues,
        workers: Workers,
        flows: Flows,
        stage: StageRows,
    ) -> None:
        self._jobs, self._recoveries = jobs, recoveries
        self._queues, self._workers, self._flows, self._stage = queues, workers, flows, stage

    def recover_outbox(self) -> None:
        """Do again what a process that died may have left half done."""
        for queue in self._jobs.places.queues():
            # First: a job that waits in a queue of another cluster slot has to be there when it is let in.
            self._jobs.deliver(queue)
        for recover in self._recoveries:
            recover()

    def maintain(self, seconds: float) -> list[str]:
        """Purge what history no longer keeps, bring jobs to where they are going, remove queues that have expired."""
        names = self._jobs.places.queues()
        # First: the rest may need memory, and the server have none.
        behind = purge_each(lambda queue: self._queues.purge(queue, limit=_PURGED), names, _PURGED, Budget(seconds))
        self.recover_outbox()  # what is done late is known by marks: they must not be forgotten before
        for queue in names:
            self._jobs.deliver(queue)
        self._flows.forget_flows()
        self._stage.forget_stages()
        remove_expired(self._queues)
        now, server = self._jobs.now(), self._jobs.server
        for queue in names:
            for marks in ("arrived", "gone"):
                old = now - _MARKS_KEPT * SECOND
                server.command("ZREMRANGEBYSCORE", server.keys.queue(queue) + marks, "-inf", old)
            self._jobs.script("forget_batches", queue, now - _MARKS_KEPT * SECOND)
        self._workers.forget_dead(now)
        return behind
