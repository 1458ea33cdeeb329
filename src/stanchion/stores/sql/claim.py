"""Jobs out: the claim, and the limits of a queue.

A claim walks the line of its queue by a loose index scan: the highest priority in use, then the next
below it. Within one priority the due jobs are a prefix of the index, so that scheduled ones, however
many and however important, cost a claim one look per priority.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlalchemy import Executable

from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.sql.admission import Admission, Gating
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Row, Runner
from stanchion.stores.sql.jobs import in_order
from stanchion.stores.sql.lanes import Laning
from stanchion.stores.sql.parking import Alike, Search
from stanchion.stores.sql.queue_rows import QueueRow
from stanchion.stores.sql.recovery import Recovery

_AHEAD, _FEW = 3, 30
"""So many times as many jobs as are wanted are looked at together, up to a few, where they must ask at gates."""

Work = Callable[[Claim, Search], Admission | None]
"""One transaction of a claim. None: it has freed leases that had run out, and looked for nothing yet."""


class Claiming(Laning, Recovery, Gating):
    """Reserves due jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.gated_queues: set[str] = set()
        """Queues whose last claim met jobs that have to ask at gates."""
        self.owed: dict[str, float] = {}
        """Seconds for which the next claim of a queue is to park what claims have looked past."""

    def claim_together(self, claim: Claim) -> Claimed:
        """Reserve jobs as `claim` does, but those that are to run alone together with others."""
        return self.search(claim, Search())

    def search(self, claim: Claim, search: Search) -> Claimed:
        """Claim, in as many transactions as it takes."""
        return self.claim_by(self.claim_some, claim, search)

    def claim_by(self, work: Work, claim: Claim, search: Search) -> Claimed:
        """Claim by as many of these transactions as it takes, and park jobs that they have looked past."""
        return self._park_passed(claim, search, self._filled(claim, work, search))

    def claim_some(self, claim: Claim, search: Search) -> Admission | None:
        """Carry out one transaction of a claim, by the way that does for all."""
        # One that a power cut undoes leaves the job ready, and its token refuses whoever had it.
        return self.transactions.write(
            lambda run, again: self._claim_in(run, claim, search, again=again), durable=False, together=True
        )

    def _filled(self, claim: Claim, work: Work, search: Search) -> Claimed:
        """Look for jobs, in one transaction after the other, until there are enough, no more, or the time is over.

        Each locks gates only once, and a claim that met many jobs which have to wait must not take long.
        """
        rows: dict[str, JobRow] = {}
        wish, began, deferring_until = claim, time.monotonic(), 0.0
        while True:
            search.deferring = time.monotonic() < deferring_until
            past, rates, asked = search.past, search.passed_rates, time.monotonic()
            found = work(wish, search)
            if found is None:
                continue
            if past is not None:
                search.looked = time.monotonic() - asked
            rows |= {row.id: row for row in found.rows}
            if rates and not rows:
                deferring_until = math.inf  # nothing else is there: what was passed is to be deferred
            elif not found.more or len(rows) >= claim.limit:
                return Claimed(list(rows.values()), 0.0 if rates and found.retry_in is None else found.retry_in)
            elif search.past is not None and (seconds := self.owed.pop(claim.queue, 0.0)):
                deferring_until = time.monotonic() + seconds
                self._park_runs(claim, search, min(seconds, search.seconds))
            if time.monotonic() - began >= search.seconds:
                return Claimed(list(rows.values()), 0.0)
            wish = claim._replace(limit=claim.limit - len(rows), repeat=False)

    def _park_passed(self, claim: Claim, search: Search, claimed: Claimed) -> Claimed:
        """Park jobs that the claim has looked past; where it found others, the next claim does, before it looks."""
        if search.past is None:
            return claimed
        if claimed.rows:
            self.owed[claim.queue] = search.looked / 2
            return claimed
        return claimed if self._park_runs(claim, search, search.seconds) else claimed._replace(retry_in=0.0)

    def _park_runs(self, claim: Claim, search: Search, seconds: float) -> bool:
        """Park jobs like those that had to wait, for so long; False where the time was too short."""
        until = time.monotonic() + seconds
        for alike in search.runs:
            park = partial(self._park_run, claim, search, alike)
            while self.transactions.write(park, durable=False):
                if time.monotonic() >= until:
                    return False
        return True

    def _park_run(self, claim: Claim, search: Search, alike: Alike, run: Runner, _again: bool) -> bool:
        return self.park_run(run, claim, search, alike)

    def _claim_in(self, run: Runner, claim: Claim, search: Search, *, again: bool = False) -> Admission | None:
        expired, queue = run.all_rows([self.asks_expired, self.queue_rows.asks(claim.queue)])
        if expired:
            self.free_lost(run, expired)
            return None  # what follows from that locks rows which this claim would lock in another order
        if (again or claim.repeat) and (held := self.held(run, claim)):
            return Admission(held)
        settings = QueueRow(*queue[0]).settings if queue else QueueSettings(claim.queue)
        if settings.throttled:
            return self._throttled(run, claim, search)
        return self._reserve(run, claim, search, settings, claim.limit)

    def held(self, run: Runner, claim: Claim) -> list[JobRow]:
        """Return what an earlier try of this claim reserved, when its answer was lost."""
        return in_order(run.rows(self.statements.held_by_token, {"queue": claim.queue, "token": claim.token}))

    def _throttled(self, run: Runner, claim: Claim, search: Search) -> Admission:
        """Claim under the queue's limits; its row is locked, so that all claimers share one count."""
        row = self.queue_rows.find(run, claim.queue, lock=True)
        if row is None or row.paused:
            return Admission([])
        settings = row.settings
        limit = claim.limit
        if settings.max_running is not None:
            running = run.rows(self.statements.running_count, {"queue": claim.queue})[0][0]
            limit = min(limit, settings.max_running - running)
        if settings.max_rate is None:
            return self._reserve(run, claim, search, settings, limit, row)
        now = self.clock(run)
        bucket = Bucket(settings.max_rate, tokens=row.rate_tokens, filled_at=row.rate_at).at(now)
        found = self._reserve(run, claim, search, settings, min(limit, bucket.whole), row)
        if found.rows:
            bucket = bucket.spent(len(found.rows))
            run.change(
                self.statements.spend,
                {"queue": claim.queue, "rate_tokens": bucket.tokens, "rate_at": bucket.filled_at},
            )
        return found if bucket.whole else found._replace(more=False, retry_in=bucket.next_in)

    def _reserve(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        limit: int,
        queue: QueueRow | None = None,
    ) -> Admission:
        """Reserve the next due jobs; of a laned queue, whose row must be locked, each lane's in its turn."""
        if claim.worker is None:
            search.seconds = min(search.seconds, (settings.lease if claim.lease is None else claim.lease) / 2)
        if limit < 1:
            return Admission([])
        if settings.laned and queue is not None:
            held = self._hold_in_turn(run, claim, search, settings, limit, queue)
        elif beside_the_lane(claim):
            held = Admission([])
        else:
            held = self.hold(run, claim, search, settings, limit)
        if claim.counted:
            self.jobs.tally(run, [(claim.queue, "reserved")] * len(held.rows))
        return held

    def hold(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        """Mark the next due jobs as reserved; return them, whole, as they are now, in order."""
        picks = self.picks(claim, search, limit)
        search.asking.clear()
        ids = self.due_at_gates(run, claim.queue, picks, search)
        if not ids:
            self.gated_queues.discard(claim.queue)
        found = self.hold_these(run, claim, search, settings, ids, limit)
        # Where that was all there is, there is no more, unless a slot was set free.
        return found._replace(more=found.more and (len(ids) == picks or bool(run.freed)))

    def picks(self, claim: Claim, search: Search, limit: int) -> int:
        """Return how many jobs are looked at together: some may have to wait, and to look on takes a transaction."""
        return max(limit, search.picks, min(_AHEAD * limit, _FEW) if claim.queue in self.gated_queues else 0)

    def hold_these(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
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
        found = self.admit_in(run, claim, search, settings, [one for one in ids if one not in plain], room - len(plain))
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

    def _hold_in_turn(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int, queue: QueueRow
    ) -> Admission:
        before = served = self.served(run, claim, queue)
        held: list[JobRow] = []
        found = Admission([])
        while len(held) < limit and not found.asked:
            room = limit - len(held)
            turns = self.in_turn(run, claim, max(room, search.picks), served)
            found = self.hold_these(run, claim, search, settings, [turn.id for turn in turns], room)
            if not found.rows:
                break
            held += found.rows
            served = held[-1].lane
        if served != before:
            self.serve(run, claim, served)
        return found._replace(rows=held, more=found.asked and len(held) < limit)

    def due(self, run: Runner, queue: str, limit: int, past: Params | None = None) -> list[str]:
        """Return the ids of the next due jobs, locked, in order."""
        ids: list[str] = []
        pick: Executable = self.statements.pick
        given: Params = {"queue": queue}
        if past is not None:
            pick, given = self.statements.pick_past, {**past, "keys": self.dialect.listed(past["keys"]), **given}
        for priority in self.priorities(run, queue):
            picked = run.rows(pick, {**given, "at_priority": priority, "most": limit - len(ids)})
            ids.extend(str(row[0]) for row in picked)
            if len(ids) >= limit:
                break
        return ids

    def due_at_gates(self, run: Runner, queue: str, limit: int, search: Search) -> list[str]:
        """Return the same for jobs that may have to ask at gates, past those who would have to wait there."""
        return self.due(run, queue, limit, search.past)

    def priorities(self, run: Runner, queue: str) -> Iterator[int]:
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
