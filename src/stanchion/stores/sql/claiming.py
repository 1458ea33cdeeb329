"""Jobs out: the claim, and the limits of a queue.

A claim walks the line of its queue by a loose index scan: the highest priority in use, then the next
below it. Within one priority the due jobs are a prefix of the index, so that scheduled ones, however
many and however important, cost a claim one look per priority.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence

from stanchion.stores.records import SECOND, UNLANED, Claim, Claimed, JobRow, QueueSettings
from stanchion.stores.sql.base import in_order
from stanchion.stores.sql.connection import Params, Row, Runner
from stanchion.stores.sql.database import Database
from stanchion.stores.sql.gating import AT_ONCE, Admission, Gating
from stanchion.stores.sql.laning import Laning
from stanchion.stores.sql.recovery import Recovery
from stanchion.stores.throttle import Bucket
from stanchion.stores.transitions import Transition, popped

_PATIENCE = 2.0
"""Seconds that one call goes on looking past jobs that have to wait at gates."""

_PICKED_AT_GATES = 100
"""So many jobs are looked at together, at least, once one had to be kept back: few of them may be allowed to run."""


class Claiming(Laning, Recovery, Gating):
    """Reserves due jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.gated_queues: set[str] = set()
        """Queues whose last claim met jobs that have to ask at gates."""

    def claim_together(self, claim: Claim) -> Claimed:
        """Reserve jobs as `claim` does, but those that are to run alone together with others."""

        def work(claim: Claim) -> Claimed:
            # One that a power cut undoes leaves the job ready, and its token refuses whoever had it.
            return self.write(lambda run, again: self._claim_in(run, claim, again=again), durable=False)

        return self.filled(claim, work(claim), work)

    def pop(self, claim: Claim) -> list[JobRow]:
        def work(claim: Claim) -> Claimed:
            return self.write(lambda run, _again: self._pop_in(run, claim))

        return self.filled(claim, work(claim), work).rows

    def filled(self, claim: Claim, found: Claimed, work: Callable[[Claim], Claimed]) -> Claimed:
        """Go on for a while, in one transaction after the other, with a claim that broke off at gates."""
        rows = {row.id: row for row in found.rows}
        until = time.monotonic() + _PATIENCE
        while found.retry_in == 0.0 and len(rows) < claim.limit and time.monotonic() < until:
            found = work(claim._replace(limit=claim.limit - len(rows), repeat=False))
            rows |= {row.id: row for row in found.rows}
        return Claimed(list(rows.values()), found.retry_in)

    def _claim_in(self, run: Runner, claim: Claim, *, again: bool = False, counted: str | None = "reserved") -> Claimed:
        self.recover_expired(run)
        if (again or claim.repeat) and (held := self.held(run, claim)):
            return Claimed(held)
        settings, _ = self.queue_row(run, claim.queue)
        if settings.throttled:
            return self._throttled(run, claim, counted)
        return self._reserve(run, claim, settings, claim.limit, counted)

    def held(self, run: Runner, claim: Claim) -> list[JobRow]:
        """Return what an earlier try of this claim reserved, when its answer was lost."""
        return in_order(run.rows(self.statements.held_by_token, {"queue": claim.queue, "token": claim.token}))

    def _throttled(self, run: Runner, claim: Claim, counted: str | None) -> Claimed:
        """Claim under the queue's limits; its row is locked, so that all claimers share one count."""
        settings, row = self.queue_row(run, claim.queue, lock=True)
        if settings.paused or row is None:
            return Claimed([])
        limit = claim.limit
        if settings.max_running is not None:
            running = run.rows(self.statements.running_count, {"queue": claim.queue})[0][0]
            limit = min(limit, settings.max_running - running)
        if settings.max_rate is None:
            return self._reserve(run, claim, settings, limit, counted, row) if limit > 0 else Claimed([])
        now = self.clock(run)
        bucket = Bucket(settings.max_rate, tokens=row[-2], filled_at=row[-1]).at(now)
        limit = min(limit, bucket.whole)
        claimed = self._reserve(run, claim, settings, limit, counted, row) if limit > 0 else Claimed([])
        if claimed.rows:
            bucket = bucket.spent(len(claimed.rows))
            run.change(
                self.statements.spend,
                {"queue": claim.queue, "rate_tokens": bucket.tokens, "rate_at": bucket.filled_at},
            )
        return claimed if bucket.whole else Claimed(claimed.rows, bucket.next_in)

    def _reserve(
        self,
        run: Runner,
        claim: Claim,
        settings: QueueSettings,
        limit: int,
        counted: str | None,
        queue: Row | None = None,
    ) -> Claimed:
        """Reserve the next due jobs; of a laned queue, whose row must be locked, each lane's in its turn."""
        if settings.laned and queue is not None:
            held = self._hold_in_turn(run, claim, settings, limit, queue)
        elif beside_the_lane(claim):
            held = Admission([])
        else:
            held = self.hold(run, claim, settings, limit)
        if counted:
            self.tally(run, [(claim.queue, counted)] * len(held.rows))
        return held.claimed(limit)

    def hold(self, run: Runner, claim: Claim, settings: QueueSettings, limit: int) -> Admission:
        """Mark the next due jobs as reserved; return them, whole, as they are now, in order."""
        rows: list[JobRow] = []
        kept_back: set[str] = set()
        at: int | None = None
        while True:
            room = limit - len(rows)
            due = self.due(run, claim.queue, max(room, _PICKED_AT_GATES) if kept_back else room)
            ids = [one for one in due if one not in kept_back]  # the moment for which it was put off may have come
            if not ids and not kept_back:
                self.gated_queues.discard(claim.queue)
            found = self.hold_these(run, claim, settings, ids, room, at)
            at = found.at
            rows += found.rows
            kept_back |= found.kept_back
            if len(rows) >= limit or not found.kept_back or len(kept_back) >= AT_ONCE:
                return Admission(rows, kept_back)

    def hold_these(
        self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str], room: int, at: int | None = None
    ) -> Admission:
        """Mark up to `room` locked jobs as reserved, in this order, as far as their gates allow."""
        if not ids:
            return Admission([])
        plain: dict[str, JobRow] = {}
        if len(ids) <= room and claim.queue not in self.gated_queues:
            plain = {row.id: row for row in self.reserve_plain(run, claim, settings, ids)}
            if len(plain) == len(ids):
                return Admission([plain[one] for one in ids])
        elif len(ids) <= room and (rows := self.reserve_with_slots(run, claim, settings, ids)):
            taken = {row.id: row for row in rows}
            return Admission([taken[one] for one in ids], asked=True)
        found = self.admit_in(run, claim, settings, [one for one in ids if one not in plain], room - len(plain), at)
        if found.asked:
            self.gated_queues.add(claim.queue)
        else:
            self.gated_queues.discard(claim.queue)
        reserved = plain | {row.id: row for row in found.rows}
        return found._replace(rows=[reserved[one] for one in ids if one in reserved])

    def reserve_plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> Sequence[JobRow]:
        """Mark those of these locked jobs as reserved that need not ask at any gate; return them, as they are now."""
        given = {"ids": json.dumps(ids), **reservation(claim, settings)}
        return [JobRow(*row) for row in run.rows(self.statements.reserve, given)]

    def _hold_in_turn(self, run: Runner, claim: Claim, settings: QueueSettings, limit: int, queue: Row) -> Admission:
        before = served = self.served(run, claim, queue)
        held: list[JobRow] = []
        kept_back: set[str] = set()
        at: int | None = None
        while len(held) < limit and len(kept_back) < AT_ONCE:
            turns = self.in_turn(run, claim, limit - len(held), served)
            ids = [turn.id for turn in turns if turn.id not in kept_back]
            found = self.hold_these(run, claim, settings, ids, limit - len(held), at)
            if not found.rows and not found.kept_back:
                break
            held += found.rows
            at = found.at
            kept_back |= found.kept_back
            served = held[-1].lane if held else served
        if served != before:
            self.serve(run, claim, served)
        return Admission(held, kept_back)

    def _pop_in(self, run: Runner, claim: Claim) -> Claimed:
        rows: list[JobRow] = []
        while len(rows) < claim.limit:
            # What a job had to hold is free again as soon as it is popped.
            room = 1 if claim.queue in self.gated_queues else claim.limit - len(rows)
            claimed = self._claim_in(run, claim._replace(limit=room), counted=None)
            done = [
                Transition(popped(row._replace(attempts=row.attempts - 1), row.started_at or 0), "popped")
                for row in claimed.rows
            ]
            self.store(run, claimed.rows, done)
            rows += [step.row for step in done]
            if not done or claim.queue not in self.gated_queues:
                return Claimed(rows, claimed.retry_in)
        return Claimed(rows)

    def due(self, run: Runner, queue: str, limit: int) -> list[str]:
        """Return the ids of the next due jobs, locked, in order."""
        ids: list[str] = []
        for priority in self._priorities(run, queue):
            picked = run.rows(self.statements.pick, {"queue": queue, "at_priority": priority, "most": limit - len(ids)})
            ids.extend(str(row[0]) for row in picked)
            if len(ids) >= limit:
                break
        return ids

    def _priorities(self, run: Runner, queue: str) -> Iterator[int]:
        """Yield the priorities in use, highest first."""
        found: list[Row] = run.rows(self.statements.top_priority, {"queue": queue})
        while found:
            priority = int(found[0][0])
            yield priority
            found = run.rows(self.statements.next_priority, {"queue": queue, "below": priority})


def beside_the_lane(claim: Claim) -> bool:
    """Tell whether the claim wants none of the jobs that are in no lane."""
    return claim.lanes is not None and claim.lanes[0] > UNLANED


def reservation(claim: Claim, settings: QueueSettings) -> Params:
    """Return the parameters that mark a job as reserved by this claim."""
    lease = settings.lease if claim.lease is None else claim.lease
    return {
        "token": claim.token,
        "worker": claim.worker,
        "worker_holds": claim.worker is not None,
        "lease_micros": int(lease * SECOND),
    }
