"""Jobs out: reserved by one script, parked by another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stanchion.stores.cas import claim as cas
from stanchion.stores.cas.claim import Parked
from stanchion.stores.cas.slots import Slots
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.redis.client.rows import rows_in
from stanchion.stores.redis.jobs import Jobs

_AT_ONCE = 2000


class DueJobs:
    """The due jobs of queues: the primitives of a claim."""

    def __init__(self, jobs: Jobs, slots: Slots, lost: LostJobs) -> None:
        self._jobs, self._slots, self._lost = jobs, slots, lost

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, whatever slots they need."""
        return self.reserve(claim)

    def reserve(self, claim: Claim, batch: str = "") -> Claimed:
        """Reserve jobs, so many in a step; between two of them others are served. `batch`: "1" for one."""
        rows: dict[str, JobRow] = {}
        while True:
            part = claim._replace(limit=min(claim.limit - len(rows), _AT_ONCE))
            claimed, before = self._reserve_some(part, batch), len(rows)
            rows.update((row.id, row) for row in claimed.rows)  # after a lost answer all that the token holds come
            if claim.repeat or len(rows) >= claim.limit or len(rows) - before < part.limit:
                return Claimed(list(rows.values()), claimed.retry_in)

    def _reserve_some(self, claim: Claim, batch: str) -> Claimed:
        lease = "" if claim.lease is None else str(int(claim.lease * SECOND))
        worker = claim.worker or ""
        lanes, counted = claim.lanes or ("", ""), "reserved" if claim.counted else ""
        server, places = self._jobs.server, self._jobs.places

        begins: Sequence[Any] = ("", 0)

        def run(again: bool) -> Any:
            repeat = "1" if again or claim.repeat else ""
            wish = (claim.limit, claim.token, worker, lease, repeat, counted, *lanes, batch)
            return server.run("claim", server.keys.queue(claim.queue), *wish, *begins, *claim.full)

        while True:
            found, jobs, wait, *reached = server.call(run)
            if found == b"expired":
                expired = [job_id.decode() for job_id in jobs]
                places.remember(claim.queue, expired)
                self._lost.free(expired, {})
            elif jobs or not reached:
                break
            else:  # nothing yet among those that it was allowed to look at
                begins = reached
        rows = rows_in(jobs.decode(), claim.queue)
        if found == b"held":
            rows.sort(key=lambda row: (-row.priority, row.run_at, row.id))
        places.remember(claim.queue, (row.id for row in rows))
        return Claimed(rows, float(wait) if wait else None)

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not."""
        # That jobs of this queue wait at these slots was noted with the first that was parked at each.
        lanes = claim.lanes or ("", "")
        wish = (began, claim.token, *lanes, "1" if alone else "", *claim.full)
        parked, more = self._jobs.script("park", claim.queue, *wish)
        if parked:
            self._slots.wake(*claim.full)
        return Parked(parked, more == 1)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park as `park_run` does: one script passes over no more jobs than it parks."""
        return self.park_run(claim, began, alone=False)


class Batches:
    """Jobs that are reserved as one batch, for readers elsewhere."""

    def __init__(self, jobs: Jobs, reserve: Callable[[Claim], Claimed]) -> None:
        self._jobs, self._reserve = jobs, reserve

    def claim_batch(self, claim: Claim) -> Claimed:
        """Reserve due jobs so that they are found by their token."""
        return self._reserve(claim)

    def batch_size(self, queue: str, token: str) -> int:
        """Return how many jobs are reserved of those that `claim_batch` has reserved."""
        return len(self._held(queue, token, "1"))

    def ids(self, queue: str, token: str) -> list[str]:
        """Return the ids of the running jobs of a queue that are held under a token, in their order."""
        return self._held(queue, token, "")

    def _held(self, queue: str, token: str, listed: str) -> list[str]:
        return sorted(job_id.decode() for job_id in self._jobs.script("reserved", queue, token, listed))


class Claims:
    """Claims, and reserves batches."""

    def __init__(self, jobs: Jobs, due: DueJobs, general: cas.Claims) -> None:
        self._due, self._general = due, general
        self.batches = Batches(jobs, self._claim_batch)

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs that have their slots, or a batch of them."""
        if not claim.rows:
            return Claimed([], reserved=cas.reserve(self.batches, claim))
        return self._general.claim(claim)

    def _claim_batch(self, claim: Claim) -> Claimed:
        return self._general.hand_out(claim, lambda part: self._due.reserve(part, "1"))
