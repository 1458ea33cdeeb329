"""Jobs out of the memory store and back: claims, outcomes, liveness."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stanchion.stores.memory.jobs import refuse_to_join
from stanchion.stores.memory.slots import Coordinating
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.outcomes import Commit, Continue, Extension, Outcome, Progress
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.liveness import alive, is_lost, least_sharing, shares
from stanchion.stores.rules.lost_leases import apart, had_begun
from stanchion.stores.rules.slots import gated

_SECONDS = 2.0
"""So long one claim goes on looking past jobs that have to wait; at most half of its lease."""


class Reserving(Coordinating):
    """The verbs about jobs in hand, and about the workers that hold them."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__(frozen=frozen)
        self._workers: dict[str, WorkerRow] = {}

    # -- jobs out

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs: running, under the claim's token, this attempt counted."""
        with self._lock:
            claimed, others = apart(self._claim(claim), claim.token)
            now = self.now()
            for one in others:
                self._settle(one, now, repeat=False)
            return claimed

    def _claim(self, claim: Claim) -> Claimed:
        if claim.repeat and (held := self._under_token(claim)):
            return Claimed(held)
        lease = claim.lease if claim.lease is not None else self._settings(claim.queue).lease

        def reserve(row: JobRow, now: int) -> JobRow:
            return claim_rules.claimed(row, claim, lease, now)

        return self._hand_out(claim, "reserved", reserve)

    def _under_token(self, claim: Claim) -> list[JobRow]:
        held = [row for row in self._running() if row.queue == claim.queue and row.token == claim.token]
        return sorted(held, key=lambda row: (-row.priority, row.run_at, row.id))

    def pop(self, claim: Claim) -> list[JobRow]:
        """Hand out due jobs for good: they are done."""
        with self._lock:
            return self._hand_out(claim, "popped", outcome_rules.popped).rows

    def _hand_out(self, claim: Claim, counted: str, step: Callable[[JobRow, int], JobRow]) -> Claimed:
        line = self._lines.get(claim.queue)
        if line is None:
            return Claimed([])
        now = self.now()
        for row in line.expired(now):
            self._take_back(row, now)
        allowed, retry_in = line.allowance(claim.limit, now)
        rows: list[JobRow] = []
        until, broken_off = time.monotonic() + self._seconds_for(claim), False
        for row in line.due(now, claim.lanes):
            if len(rows) == allowed:
                break
            admitted = self._admitted(row, claim, now)
            if admitted is not None:
                line.take_turn(claim.lanes, row.lane)
                rows.append(step(admitted, now))
                self._change(admitted, rows[-1])
            elif time.monotonic() > until:
                broken_off = True
                break
        line.started(counted, len(rows))
        if broken_off:
            return Claimed(rows, 0.0)
        return Claimed(rows, retry_in if len(rows) == allowed else None)

    def _seconds_for(self, claim: Claim) -> float:
        """Return how long a claim may go on looking past jobs that have to wait; at most half of its lease."""
        lease = self._settings(claim.queue).lease if claim.lease is None else claim.lease
        return _SECONDS if claim.worker is not None else min(_SECONDS, lease / 2)

    def _admitted(self, row: JobRow, claim: Claim, now: int) -> JobRow | None:
        """Return a job with the gates that it needs; None when it has to wait for one, and does so by then."""
        if not gated(row):
            return row
        verdict = self._admit(row, now)
        if verdict.admitted:
            return row._replace(held=verdict.held, permit=row.permit or claim.token)
        self._change(row, claim_rules.kept_back(row, verdict, claim.token, now))
        return None

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        """Apply outcomes of reservations; for each the state it led to, or None where the lease was lost."""
        if tx is not None:
            refuse_to_join()
        with self._lock:
            now = self.now()
            return [self._settle(outcome, now, repeat) for outcome in outcomes]

    def _settle(self, outcome: Outcome, now: int, repeat: bool) -> JobState | None:
        row = self._held(outcome.id, outcome.token, now)
        if row is None:
            return claim_rules.left_in(self._find(outcome.id), outcome.token, now) if repeat else None
        step = outcome_rules.settled(row, outcome, self._settings(row.queue), now)
        if isinstance(outcome, Continue):
            self._refuse_duplicates(outcome.jobs)
        self._apply(row, step)
        if isinstance(outcome, Continue) and not step.final:  # it may wait for a part that is done at once
            self._open(outcome.nodes, outcome.jobs)
        if isinstance(outcome, Commit) and step.row.state == JobState.DONE:
            for job in outcome_rules.fanned_out(outcome):
                self._push(job, now)
        return step.state(now)

    def extend(self, extensions: Sequence[Extension]) -> list[bool]:
        """Renew leases; False for each that was lost."""
        with self._lock:
            now = self.now()
            return [self._extend(extension, now) for extension in extensions]

    def _extend(self, extension: Extension, now: int) -> bool:
        row = self._held(extension.id, extension.token, now)
        if row is not None:
            self._put(claim_rules.extended(row, extension.seconds, now))
        return row is not None

    def progress(self, reports: Sequence[Progress]) -> list[bool]:
        """Record progress; False for each reservation that was lost."""
        with self._lock:
            now = self.now()
            return [self._progress(report, now) for report in reports]

    def _progress(self, report: Progress, now: int) -> bool:
        row = self._held(report.id, report.token, now)
        if row is not None:
            self._put(row._replace(progress=report.value))
        return row is not None

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Give back jobs whose lease ran out or whose worker is dead; return them as they are now."""
        with self._lock:
            now = self.now()
            return [self._take_back(row, now) for row in self._lost(now if as_of is None else as_of)[:limit]]

    def _take_back(self, row: JobRow, now: int) -> JobRow:
        begun = had_begun(row, self._workers.get(row.worker or ""))
        settings = self._settings(row.queue)
        return self._apply(row, outcome_rules.lease_lost(row, settings, now, begun=begun, delay=self.lost_lease_delay))

    def _lost(self, now: int) -> list[JobRow]:
        return [row for row in self._running() if is_lost(row, self._workers, now)]

    # -- workers

    def beat(self, worker: WorkerRow) -> Beat:
        """Record that the worker is alive."""
        with self._lock:
            now = self.now()
            known = self._workers.get(worker.id)
            started_at = known.started_at if known else now
            self._workers[worker.id] = replace(worker, started_at=started_at, last_seen_at=now)
            mine = (row for row in self._running() if row.worker == worker.id)
            sharing = ((one.queues, 1) for one in self._workers.values() if shares(one, now))
            cancelled = [row.id for row in mine if row.cancel_requested]
            return Beat(len(self._alive(now)), cancelled, least_sharing(worker.queues, sharing))

    def leave(self, worker: str) -> None:
        """Forget a worker that has given back all its jobs."""
        with self._lock:
            self._workers.pop(worker, None)

    def workers(self) -> list[WorkerRow]:
        """Return all known workers, also those that are late, with their number of running jobs."""
        with self._lock:
            running = Counter(row.worker for row in self._running())
            rows = sorted(self._workers.values(), key=lambda worker: (worker.started_at, worker.id))
            return [replace(worker, running=running[worker.id]) for worker in rows]

    def _alive(self, now: int) -> list[WorkerRow]:
        return [worker for worker in self._workers.values() if alive(worker, now)]
