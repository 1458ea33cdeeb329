"""PostgreSQL's claims: one route per shape of queue; the fast ones are a statement that commits itself.

    plain      one statement; under the lock of the queue if it has `max_running`, in the same round trip
    slots      one statement if all jobs get their slots, else two round trips
    lanes      one statement, repeated if others were faster
    general    a transaction, as on all databases; also after leases have expired, and for a range of lanes

Jobs that a claim names are picked by their ids, and else claimed as from a plain queue. The statement of a wrong route
changes nothing, and returns what it met; the claim is repeated by the right route.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, get_args

from sqlalchemy import text

from stanchion.errors import InvalidInput
from stanchion.stores.fields.queues import CAPPED
from stanchion.stores.fields.sql import begun, changes
from stanchion.stores.postgres.claims.admit import CLAIM_SLOTS, TwoTrips
from stanchion.stores.postgres.claims.lanes import CLAIM_LANES, Taken, taken
from stanchion.stores.postgres.pick import (
    BOUNDED,
    CLOCK,
    EXPIRED,
    IN_TIME,
    MET,
    NOW,
    PICKED,
    PLACES,
    SHAPE,
    UNSEEN_PLACES,
    WHOLE,
    answered,
    claimed,
    counted,
    picked,
)
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.claims import in_claim_order
from stanchion.stores.sql.claims.claim import Answer, Routes, TransactionClaims, UnseenReservations
from stanchion.stores.sql.claims.order import excludes_unlaned
from stanchion.stores.sql.claims.pick import Met, Search
from stanchion.stores.sql.claims.reserve import Reservations, lease_of, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.queues import QueueRows

try:
    from psycopg import DataError, IntegrityError
except ImportError:  # pragma: no cover - said by open_store
    DataError = IntegrityError = InvalidInput  # type: ignore[assignment,misc]  # then no store is opened

_MET: Final[Mapping[str, Met]] = {met: met for kind in get_args(Met) for met in get_args(kind)}
_EMPTY_ROUNDS_MAX = 3
"""Number of times that a claim searches again after others have taken all jobs it found."""

_SHAPE = f"CASE WHEN NOT EXISTS (SELECT 1 FROM claimed) THEN {SHAPE} END"
_CLAIM = text(answered(claimed(PICKED, WHOLE), _SHAPE))
_RESERVE = text(counted(claimed(picked(UNSEEN_PLACES), "items"), _SHAPE))

# A transaction of two statements: the second one starts after the lock, and so counts what earlier holders have begun.
# Where leases have expired, the queue isn't locked: freeing them locks jobs first.
_LOCK_CAPPED = text(f"""
    WITH {CLOCK}, locked AS MATERIALIZED (
        SELECT 1 FROM stanchion_queues
        WHERE name = :queue AND {CAPPED} AND (SELECT none_expired FROM clock) FOR UPDATE
    ), passed_on AS MATERIALIZED (
        SELECT set_config('stanchion.locked', CAST((SELECT count(*) FROM locked) AS text), true) AS locked
    )
    SELECT CAST(locked AS int), {MET} FROM passed_on
""")
_ROOM = """
    room (n) AS MATERIALIZED (
        SELECT least(CAST(:most AS bigint), greatest(0, max_running - (
            SELECT count(*) FROM stanchion_jobs WHERE queue = :queue AND state = 'running'
        )))
        FROM stanchion_queues WHERE name = :queue AND current_setting('stanchion.locked', true) = '1'
    ),
"""
_capped = partial(picked, before=_ROOM, allowed="(SELECT n FROM room) > 0", most="(SELECT n FROM room)")
_NEEDS_SLOTS = "EXISTS (SELECT 1 FROM picked WHERE needs_slot)"
_CLAIM_CAPPED = text(answered(claimed(_capped(PLACES), WHOLE), _NEEDS_SLOTS))
_RESERVE_CAPPED = text(counted(claimed(_capped(UNSEEN_PLACES), "items"), _NEEDS_SLOTS))

_NAMED = f"""
    WITH clock AS MATERIALIZED (
        -- As any claim, it need not wait for the disk.
        SELECT {NOW} AS now, {BOUNDED} AS bounded, set_config('synchronous_commit', 'off', true)
    ), named AS MATERIALIZED (
        SELECT CAST(value ->> 0 AS uuid) AS id, value ->> 1 AS worker
        FROM jsonb_array_elements(CAST(:named AS jsonb)) AS pairs (value)
    ), picked AS MATERIALIZED (
        -- The spelling of the state keeps planners from the partial indexes of queued jobs, which may be long.
        SELECT {PLACES} FROM stanchion_jobs
        WHERE queue = :queue AND id = ANY (ARRAY(SELECT id FROM named)) AND state IN ('queued', '')
            AND run_at <= {NOW} AND {IN_TIME} AND NOT (SELECT bounded FROM clock)
        FOR UPDATE SKIP LOCKED
    )
"""
_LEASE = "CASE WHEN named.worker IS NULL THEN (SELECT now FROM clock) + CAST(:lease_micros AS bigint) END"
_OF_NAMED = changes(begun(_LEASE, "(SELECT now FROM clock)", "coalesce(named.worker, CAST(:holder AS text))"))
_CLAIM_NAMED = text(
    answered(
        claimed(_NAMED, WHOLE, _OF_NAMED, of="FROM named", condition="job.id = named.id"),
        f"(SELECT bounded FROM clock) OR {_NEEDS_SLOTS}",
    )
)


class PostgresClaims(Routes):
    """Claims by the route for the shape of the queue."""

    unreadable = (InvalidInput, DataError, IntegrityError)

    def __init__(
        self,
        db: Database,
        queues: QueueRows,
        reservations: Reservations,
        two_trips: TwoTrips,
        general: TransactionClaims,
        unseen: UnseenReservations,
    ) -> None:
        self._db, self._queues, self._reservations = db, queues, reservations
        self._two_trips, self._unseen = two_trips, unseen
        routes: dict[Met, Callable[[Claim], Answer]] = {
            "plain": self._plain,
            "capped": self._capped,
            "slots": self._slots,
            "contended": self._contended,
            "lanes": self._lanes,
        }
        super().__init__(routes, general)

    def reserve(self, claim: Claim) -> int | None:
        """Reserve jobs without reading them; return how many the token holds, None if this route does not fit all."""
        route = _UNSEEN.get(self._met.get(claim.queue, "plain"))
        if route is not None and not excludes_unlaned(claim):
            claimed, self._met[claim.queue] = route(self, claim)
            if claimed is not None:
                return claimed.reserved
        return self._unseen.reserve(claim)

    def _plain(self, claim: Claim) -> Answer:
        def work(run: Runner, again: bool) -> Claimed | str:
            if (again or claim.repeat) and (held := self._held(run, claim)):
                return held
            given = self._wanted(run, claim, claim.limit)
            if claim.rows:
                rows = run.rows(_CLAIM, given)
                if rows[0][0] is None:
                    return str(rows[0][-1])
                return Claimed(in_claim_order([row_from(row[:-1]) for row in rows]))
            ((reserved, met),) = run.rows(_RESERVE, given)
            return met or Claimed([], reserved=reserved)

        found = self._db.statement(work, None if claim.rows else calls.seconds_for(claim.limit))
        return Answer(found, "plain") if isinstance(found, Claimed) else self._otherwise(claim, "plain", found)

    def _capped(self, claim: Claim) -> Answer:
        def work(run: Runner, again: bool) -> Claimed | str:
            if (again or claim.repeat) and (held := self._held(run, claim)):
                return held
            given = self._wanted(run, claim, claim.limit)
            claims = _CLAIM_CAPPED if claim.rows else _RESERVE_CAPPED
            ((locked, met),), rows = run.all_rows([(_LOCK_CAPPED, given), (claims, given)], last=True)
            if not locked:
                return "limited" if met == "capped" else str(met)  # as another has changed its settings just now
            first, *_, needs_slots = rows[0]
            if needs_slots:
                return "limited"
            if not claim.rows:
                return Claimed([], reserved=first)
            return Claimed(in_claim_order([row_from(row[:-1]) for row in rows if first]))

        seconds = None if claim.rows else calls.seconds_for(claim.limit)
        found = self._db.write(work, seconds, durable=False, together=True)
        return Answer(found, "capped") if isinstance(found, Claimed) else self._otherwise(claim, "capped", found)

    def _slots(self, claim: Claim) -> Answer:
        def work(run: Runner, again: bool) -> Claimed | str:
            if (again or claim.repeat) and (held := self._held(run, claim)):
                return held
            rows = run.rows(CLAIM_SLOTS, self._wanted(run, claim, claim.limit))
            if rows[0][0] is not None:
                return Claimed([row_from(row[:-1]) for row in rows])
            return rows[0][-1] or "contended"

        found = self._db.statement(work)
        return Answer(found, "slots") if isinstance(found, Claimed) else self._otherwise(claim, "slots", found)

    def _contended(self, claim: Claim) -> Answer:
        search = Search(claim.min_rank)
        found = self._two_trips.claim(claim, search)
        return Answer(found, search.met_with_slots("contended" if search.least else "slots"))

    def _lanes(self, claim: Claim) -> Answer:
        def work(run: Runner, again: bool) -> Taken | None:
            if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
                return Taken(held, 0)
            return taken(run.rows(CLAIM_LANES, self._wanted(run, claim, claim.limit - len(rows))))

        rows: dict[str, JobRow] = {}
        empty_rounds = 0
        while len(rows) < claim.limit and empty_rounds < _EMPTY_ROUNDS_MAX:
            found = self._db.statement(work)
            if found is None:
                if rows:
                    break
                return self._otherwise(claim, "lanes", f"{EXPIRED}{self._db.now()}")
            rows |= {row.id: row for row in found.rows}
            if not found.due_lanes:
                break
            empty_rounds = 0 if found.rows else empty_rounds + 1
        return Answer(Claimed(list(rows.values())), "lanes")

    def _otherwise(self, claim: Claim, route: Met, found: str) -> Answer:
        """Return the answer of a route that has reserved nothing; `found`: what it met."""
        if found == route:
            return Answer(Claimed([]), route)
        if not found.startswith(EXPIRED):
            return Answer(None, _MET[found])
        self._db.locked_leases.suspect(int(found.removeprefix(EXPIRED)))
        return self.in_general(claim, locks_queue=False) if claim.rows else Answer(None, route)

    def _held(self, run: Runner, claim: Claim) -> Claimed | None:
        """Return what an earlier try of this claim has reserved."""
        if claim.rows:
            rows = self._reservations.held(run, claim)
            return Claimed(rows) if rows else None
        reserved = self._reservations.count_held(run, claim.queue, claim.token)
        return Claimed([], reserved=reserved) if reserved else None

    def _wanted(self, run: Runner, claim: Claim, most: int) -> Params:
        """Return the parameters of a claim; the lease of the queue is read only if it is needed."""
        settings = QueueSettings(claim.queue)
        if claim.worker is None and claim.lease is None:
            settings = self._queues.settings(run, claim.queue)
        return {"queue": claim.queue, "min_rank": claim.min_rank, "most": most, **reservation(claim, settings)}

    # -- by ids

    def named(self, claim: Claim) -> Claimed:
        if claim.repeat or claim.divides or claim.limit < len(claim.ids):
            return self._general.claim(claim)

        def work(run: Runner, again: bool) -> Claimed | None:
            if again and (held := self._reservations.held(run, claim)):
                return Claimed(in_claim_order(held, claim))
            rows = run.rows(_CLAIM_NAMED, self.naming(run, claim))
            if rows[0][0] is not None:
                return Claimed(in_claim_order([row_from(row[:-1]) for row in rows], claim))
            return None if rows[0][-1] else Claimed([])

        return self._db.statement(work) or self._general.claim(claim)

    def naming(self, run: Runner, claim: Claim) -> Params:
        """Return the parameters of a claim by ids; the lease of the queue is read only if it is needed."""
        workers = claim.workers
        settings = QueueSettings(claim.queue)
        if claim.lease is None and not all(workers.values()):
            settings = self._queues.settings(run, claim.queue)
        return {
            "queue": claim.queue,
            "of_queue": claim.queue,
            "named": json.dumps([(job, worker or None) for job, worker in workers.items()]),
            "token": claim.token,
            "delivery": claim.delivery,
            "holder": claim.holder,
            "lease_micros": int(lease_of(claim, settings) * SECOND),
            "not_after": claim.not_after,
        }


_UNSEEN: Mapping[Met, Callable[[PostgresClaims, Claim], Answer]] = {
    "plain": PostgresClaims._plain,
    "capped": PostgresClaims._capped,
}
"""The routes that also reserve jobs without reading them."""
