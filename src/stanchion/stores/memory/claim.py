"""Claims: due jobs in order, within the limits of their queue and of the jobs; and new jobs that start at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.push import Pushes
from stanchion.stores.memory.queue import Queue
from stanchion.stores.memory.settle import Outcomes
from stanchion.stores.memory.slots import Slots
from stanchion.stores.memory.workers import Workers
from stanchion.stores.records.claims import LOWEST_RANK, Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob, Pushed
from stanchion.stores.rules.capacity.slots import uses_slots
from stanchion.stores.rules.capacity.starts import claim_of, with_tokens
from stanchion.stores.rules.leases.lost_leases import split_alone
from stanchion.stores.rules.lifecycle import claims as claim_rules
from stanchion.stores.rules.lifecycle.jobs import items_of_all
from stanchion.stores.rules.undeliverable import deliverable

CLAIM_SECONDS_MAX = 2.0
"""Maximum seconds that one claim searches past jobs that have to wait; at most half of its lease."""


class Claims:
    """Hands out due jobs."""

    def __init__(self, jobs: Jobs, slots: Slots, flows: Flows, workers: Workers, outcomes: Outcomes) -> None:
        self._jobs, self._slots, self._flows = jobs, slots, flows
        self._workers, self._outcomes = workers, outcomes

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs; a job that must run alone is delivered alone, unless the claim asks for no rows."""
        reserved = self._reserve(claim)
        if not claim.rows:
            return Claimed([], reserved=self._checked(claim, reserved))
        claimed, others = split_alone(reserved)
        self._outcomes.settle(others)
        return claimed

    def _checked(self, claim: Claim, reserved: Claimed) -> int:
        """Bury jobs of a batch that can't be read; return how many the token holds."""
        while dead := deliverable(reserved)[1]:
            self._outcomes.settle(dead)
            reserved = self._reserve(claim) if len(dead) == len(reserved.rows) else Claimed([])
        return len(self._jobs.reserved(claim.queue, claim.token))

    def _reserve(self, claim: Claim) -> Claimed:
        if claim.repeat and (rows := self._under_token(claim)):
            return Claimed(rows)
        return self._hand_out(claim)

    def _under_token(self, claim: Claim) -> list[JobRow]:
        rows = [row for row in self._jobs.running() if row.queue == claim.queue and row.token == claim.token]
        return claim_rules.in_claim_order(rows, claim)

    def _hand_out(self, claim: Claim) -> Claimed:
        queue = self._jobs.queues.get(claim.queue)
        now = self._jobs.now()
        if queue is None or claim.is_late(now):
            return Claimed([])
        for row in queue.expired(now):
            self._workers.take_back(row, now)
        allowed, retry_in = (claim.limit, None) if claim.divides else queue.allowance(claim.limit, now)
        rows, timed_out = self._admitted(queue, claim, allowed, now)
        if not claim.divides:
            queue.started(items_of_all(rows), counted=claim.counted)
        if timed_out:
            return Claimed(rows, 0.0)
        return Claimed(rows, retry_in if len(rows) == allowed else queue.until_head(now))

    def _admitted(self, queue: Queue, claim: Claim, limit: int, now: int) -> tuple[list[JobRow], bool]:
        """Reserve due jobs that may run, park or defer the others; return whether time ran out."""
        rows: list[JobRow] = []
        until = now + int(self._seconds(claim) * SECOND)
        workers = claim.workers
        for row in self._candidates(queue, claim, limit, now):
            if len(rows) == limit:
                break
            admitted = self._admit(row, claim, now)
            if admitted is not None:
                if not claim.ids:
                    queue.due.advance(claim.lanes, row.lane)
                mine = claim.of(workers[row.id]) if claim.ids else claim
                claimed = claim_rules.claimed(admitted, mine, self._lease(claim), now)
                self._flows.change(admitted, claimed)
                rows.append(claimed if claimed.past_waits is None else claimed._replace(past_waits=None))
            elif self._jobs.now() > until:
                return rows, True
        return rows, False

    def _candidates(self, queue: Queue, claim: Claim, limit: int, now: int) -> Iterator[JobRow]:
        """Yield the due jobs that a claim may get, in order."""
        ordered = queue.settings.ordered and limit > 0
        if not claim.ids:
            return (queue.due_head if ordered else queue.due.each)(now, claim.lanes, claim.min_rank)
        ids = claim.workers.keys()
        if claim.divides:
            return queue.queued_among(ids)
        return queue.due_head(now, None, LOWEST_RANK, ids) if ordered else queue.due_among(ids, now)

    def _admit(self, row: JobRow, claim: Claim, now: int) -> JobRow | None:
        """Return a job with its slots, or None after parking or deferring it."""
        if not uses_slots(row):
            return row
        verdict = self._slots.admit(row, now)
        if verdict.admitted:
            return row._replace(slots_held=verdict.held)
        self._flows.change(row, claim_rules.parked_or_deferred(row, verdict, claim.token, now))
        return None

    def _lease(self, claim: Claim) -> float:
        return self._jobs.settings(claim.queue).lease if claim.lease is None else claim.lease

    def _seconds(self, claim: Claim) -> float:
        return CLAIM_SECONDS_MAX if claim.worker is not None else min(CLAIM_SECONDS_MAX, self._lease(claim) / 2)


class Starts:
    """Stores new jobs and reserves the ones that a claim names."""

    def __init__(self, jobs: Jobs, pushes: Pushes, claims: Claims) -> None:
        self._jobs, self._pushes, self._claims = jobs, pushes, claims

    def push(self, jobs: Sequence[NewJob], claim: Claim | None) -> list[Pushed]:
        """Store jobs in order, all or nothing; reserve the claim's jobs that were not known before."""
        if claim is None:
            return self._pushes.push(jobs)
        new = {job.id for job in jobs if self._jobs.find(job.id) is None}
        pushed = self._pushes.push(jobs)
        started = claim_of(claim, new)
        if started is not None:
            self._claims.claim(started)
        return with_tokens(pushed, claim, {row.id for row in self._jobs.reserved(claim.queue, claim.token)})
