"""Jobs out: the claim, and the limits of a queue.

A claim walks the line of its queue by a loose index scan: the highest priority in use, then the next
below it. Within one priority the due jobs are a prefix of the index, so that scheduled ones, however
many and however important, cost a claim one look per priority.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from stanchion.stores.records import SECOND, Claim, Claimed, JobRow, QueueSettings
from stanchion.stores.sql.base import SqlBase, in_order
from stanchion.stores.sql.connection import Params, Row, Runner
from stanchion.stores.sql.recovery import Recovery
from stanchion.stores.throttle import Bucket
from stanchion.stores.transitions import Transition, popped


class Claiming(Recovery, SqlBase):
    """Reserves due jobs."""

    def claim(self, claim: Claim) -> Claimed:
        return self.database.write(lambda run, again: self._claim_in(run, claim, again=again))

    def pop(self, claim: Claim) -> list[JobRow]:
        return self.database.write(lambda run, _again: self._pop_in(run, claim))

    def _claim_in(self, run: Runner, claim: Claim, *, again: bool = False, counted: str | None = "reserved") -> Claimed:
        self.recover_expired(run)
        if (again or claim.repeat) and (held := self.held(run, claim)):
            return Claimed(held)
        settings, _ = self.queue_row(run, claim.queue)
        if settings.throttled:
            return self._throttled(run, claim, counted)
        return Claimed(self._reserve(run, claim, settings, claim.limit, counted))

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
            return Claimed(self._reserve(run, claim, settings, limit, counted) if limit > 0 else [])
        now = int(run.rows(self.statements.now)[0][0])
        bucket = Bucket(settings.max_rate, tokens=row[-2], filled_at=row[-1]).at(now)
        limit = min(limit, bucket.whole)
        rows = self._reserve(run, claim, settings, limit, counted) if limit > 0 else []
        if rows:
            bucket = bucket.spent(len(rows))
            run.change(
                self.statements.spend,
                {"queue": claim.queue, "rate_tokens": bucket.tokens, "rate_at": bucket.filled_at},
            )
        return Claimed(rows, None if bucket.whole else bucket.next_in)

    def _reserve(
        self, run: Runner, claim: Claim, settings: QueueSettings, limit: int, counted: str | None
    ) -> list[JobRow]:
        rows = self.hold(run, claim, settings, limit)
        if counted:
            self.tally(run, [(claim.queue, counted)] * len(rows))
        return in_order(rows)

    def hold(self, run: Runner, claim: Claim, settings: QueueSettings, limit: int) -> Sequence[Row]:
        """Mark the next due jobs as reserved; return them, whole, as they are now."""
        ids = self._due(run, claim.queue, limit)
        return (
            run.rows(self.statements.reserve, {"ids": json.dumps(ids), **reservation(claim, settings)}) if ids else []
        )

    def _pop_in(self, run: Runner, claim: Claim) -> list[JobRow]:
        claimed = self._claim_in(run, claim, counted=None)
        done = [
            Transition(popped(row._replace(attempts=row.attempts - 1), row.started_at or 0), "popped")
            for row in claimed.rows
        ]
        self.store(run, claimed.rows, done)
        return [step.row for step in done]

    def _due(self, run: Runner, queue: str, limit: int) -> list[str]:
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


def reservation(claim: Claim, settings: QueueSettings) -> Params:
    """Return the parameters that mark a job as reserved by this claim."""
    lease = settings.lease if claim.lease is None else claim.lease
    return {
        "token": claim.token,
        "worker": claim.worker,
        "worker_holds": claim.worker is not None,
        "lease_micros": int(lease * SECOND),
    }
