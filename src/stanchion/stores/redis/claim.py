"""Claims: one script reserves jobs, another parks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stanchion.stores.cas.claim import Parked
from stanchion.stores.cas.entries import key_of
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.records.claims import LOWEST_RANK, Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.rows import ROW, rows_in
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.lifecycle.claims import in_claim_order

_RESERVE_JOBS_MAX = 2000


class DueJobs:
    """The primitives of a claim on the due jobs of queues."""

    def __init__(self, jobs: Jobs, slots: Slots, lost: LostJobs) -> None:
        self._jobs, self._slots, self._lost = jobs, slots, lost

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve jobs, regardless of their slots, in portions between which the server serves others."""
        if claim.ids:
            claim = claim._replace(worker=None, lanes=None, min_rank=LOWEST_RANK)
        rows: dict[str, JobRow] = {}
        while True:
            part = claim._replace(limit=min(claim.limit - len(rows), _RESERVE_JOBS_MAX))
            claimed, before = self._reserve_some(part), len(rows)
            rows.update((row.id, row) for row in claimed.rows)  # after a lost reply, all jobs of the token come
            if claim.repeat or len(rows) >= claim.limit or len(rows) - before < part.limit:
                return Claimed(list(rows.values()), claimed.retry_in)

    def _reserve_some(self, claim: Claim) -> Claimed:
        lease = "" if claim.lease is None else str(int(claim.lease * SECOND))
        worker = claim.worker or ""
        lanes = claim.lanes or ("", "")
        server, places = self._jobs.server, self._jobs.places

        start: Sequence[object] = ("", 0)
        until = "" if claim.not_after is None else claim.not_after
        named = ROW.join(map(FIELD.join, claim.ids))

        def run(again: bool) -> Any:
            repeat = "1" if again or claim.repeat else ""
            batch = "" if claim.rows else "1"
            wish = (claim.limit, claim.token, worker, lease, repeat, claim.delivery or "", *lanes, batch)
            wish = (*wish, claim.holder or "", claim.min_rank, *start, until, named)
            return server.run("claim", server.keys.queue(claim.queue), *wish, *map(key_of, claim.full))

        while True:
            found, jobs, wait, *reached = server.call(run)
            if found == b"expired":
                expired = [job_id.decode() for job_id in jobs]
                places.remember(claim.queue, expired)
                self._lost.free(expired, {})
            elif jobs or not reached:
                break
            else:  # no job found yet within the bound of one script
                start = reached
        rows = rows_in(jobs.decode(), claim.queue)
        if found == b"held":
            in_claim_order(rows, claim)
        if not worker:  # a worker learns of cancellations by its heartbeat, and does not fetch its jobs
            places.remember(claim.queue, (row.id for row in rows))
        return Claimed(rows, float(wait) if wait else None)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for a slot in `claim.full`, up to one that does not."""
        # The first job parked at each slot recorded that jobs of this queue wait for it.
        lanes = claim.lanes or ("", "")
        wish = (began, claim.token, *lanes, "1" if alone else "", *map(key_of, claim.full))
        parked, more = self._jobs.script("park", claim.queue, *wish)
        if parked:
            self._slots.wake(*claim.full)
        return Parked(parked, more == 1)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park as `park_run` does: one script skips no more jobs than it parks."""
        return self.park_run(claim, began, alone=False)

    def batch_size(self, queue: str, token: str) -> int:
        """Return how many of the jobs of a queue that were reserved without rows are still held under a token."""
        return len(self._held(queue, token, "1"))

    def ids_reserved(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, sorted."""
        return self._held(queue, token, "")

    def _held(self, queue: str, token: str, listed: str) -> list[str]:
        return sorted(job_id.decode() for job_id in self._jobs.script("reserved", queue, token, listed))
