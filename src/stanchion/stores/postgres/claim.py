"""PostgreSQL's claims: one route per shape of queue; the fast ones are a statement that commits itself.

    plain      one statement
    slots      one statement if all jobs get their slots, else two round trips
    lanes      one statement, repeated if others were faster
    limited    a transaction, as on all databases; also after leases have expired, and for a range of lanes

The statement of a wrong route changes nothing, and returns the shape of the queue; the claim is repeated by the right
route. So the shapes that a process remembers are hints, and never decide which jobs may run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import text

from stanchion.errors import InvalidInput
from stanchion.stores.postgres.by_ids import PostgresByIds
from stanchion.stores.postgres.lanes import CLAIM_LANES, Taken, taken
from stanchion.stores.postgres.pick import EXPIRED, PICKED, RESERVED, RESERVES, SHAPE, WHOLE
from stanchion.stores.postgres.slots import claim_slots
from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, row_from
from stanchion.stores.records.queues import QueueSettings, QueueShape
from stanchion.stores.rules.claims import in_claim_order
from stanchion.stores.sql.claims.claim import ShortClaims, TransactionClaims, UnseenReservations
from stanchion.stores.sql.claims.order import excludes_unlaned
from stanchion.stores.sql.claims.pick import Search
from stanchion.stores.sql.claims.reserve import Reservations, reservation
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.rows.queues import QueueRows

try:
    from psycopg import DataError, IntegrityError
except ImportError:  # pragma: no cover - said by open_store
    DataError = IntegrityError = InvalidInput  # type: ignore[assignment,misc]

_EMPTY_ROUNDS_MAX = 3
"""Number of times that a claim searches again after others have taken all jobs it found."""

_CLAIMED = f"""
    {PICKED}, claimed AS (
        UPDATE stanchion_jobs AS job SET {RESERVED}
        -- By position (ctid), which the locks keep stable: no planner can turn this into a scan of the table.
        WHERE job.queue = :queue AND job.ctid = ANY (ARRAY(
            SELECT place FROM picked WHERE NOT EXISTS (SELECT 1 FROM picked WHERE needs_slot)
        ))
        RETURNING {{returning}}
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed
        WHERE {RESERVES} HAVING count(*) > 0
    )
"""
_CLAIM = text(f"""
    {_CLAIMED.format(returning=WHOLE)}
    SELECT claimed.*, shape
    -- One row without an id if nothing was reserved: it returns the shape of the queue.
    FROM (SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM claimed) THEN {SHAPE} END AS shape) AS answer
    LEFT JOIN claimed ON true
""")
_RESERVE = text(f"""
    {_CLAIMED.format(returning="1")}
    SELECT (SELECT count(*) FROM claimed), CASE WHEN NOT EXISTS (SELECT 1 FROM claimed) THEN {SHAPE} END
""")
_CLAIM_SLOTS = claim_slots(PICKED, RESERVED, WHOLE, SHAPE)


class WrongShape(NamedTuple):
    """No change was made: the queue must be claimed by the route of this shape."""

    shape: QueueShape


class Expired(NamedTuple):
    """No change was made: expired leases must be freed first. `now`: the database's clock."""

    now: int


class PostgresClaims:
    """Claims by the route for the shape of the queue."""

    def __init__(
        self,
        db: Database,
        queues: QueueRows,
        reservations: Reservations,
        two_trips: ShortClaims,
        general: TransactionClaims,
        unseen: UnseenReservations,
        by_ids: PostgresByIds,
    ) -> None:
        self._db, self._queues, self._reservations = db, queues, reservations
        self._two_trips, self._general, self._unseen, self._by_ids = two_trips, general, unseen, by_ids
        self.shapes: dict[str, QueueShape] = {}
        """The shape of each queue, as found by its last claim."""
        self._contended: set[str] = set()
        """Queues whose last claim met waiting jobs: there the all-or-none statement would reserve nothing."""
        self._routes: dict[QueueShape, Callable[[Claim], Claimed | WrongShape | Expired]] = {
            "plain": self._claim_plain,
            "slots": self._claim_slots,
            "lanes": self._claim_lanes,
            "limited": self._claim_limited,
        }

    def claim(self, claim: Claim) -> Claimed:
        if claim.ids:
            return self._by_ids.claim(claim)
        if claim.lanes is not None or claim.not_after is not None:
            return self._general.claim(claim)
        try:
            for _ in self._routes:
                found = self._routes[self.shapes.get(claim.queue, "plain")](claim)
                if isinstance(found, Claimed):
                    return found
                if isinstance(found, Expired):
                    self._db.locked_leases.suspect(found.now)
                    break
                self.shapes[claim.queue] = found.shape
        except (InvalidInput, DataError, IntegrityError):
            # A job has limits that SQL can't read; Python can. An earlier round may have reserved jobs under the token.
            return self._general.claim(claim._replace(repeat=True))
        return self._general.claim(claim)

    def reserve(self, claim: Claim) -> int | None:
        """Reserve jobs without reading them; return how many the token holds, None if this route does not fit all."""
        if excludes_unlaned(claim) or self.shapes.get(claim.queue, "plain") != "plain":
            return self._unseen.reserve(claim)

        def work(run: Runner, again: bool) -> tuple[int, str]:
            if (again or claim.repeat) and (found := self._reservations.count_held(run, claim.queue, claim.token)):
                return found, "plain"
            given = {"most": claim.limit, **self._wanted(run, claim)}
            ((reserved, shape),) = run.rows(_RESERVE, given)
            return int(reserved), shape or "plain"

        reserved, shape = self._db.statement(work, calls.seconds_for(claim.limit))
        if shape.startswith(EXPIRED):
            self._db.locked_leases.suspect(int(shape.removeprefix(EXPIRED)))
        return reserved if shape == "plain" else self._unseen.reserve(claim)

    def _claim_plain(self, claim: Claim) -> Claimed | WrongShape | Expired:
        def work(run: Runner, again: bool) -> Claimed | WrongShape | Expired:
            if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
                return Claimed(held)
            rows = run.rows(_CLAIM, {"most": claim.limit, **self._wanted(run, claim)})
            if rows[0][0] is None:
                return _nothing(rows[0][-1], "plain")
            return Claimed(in_claim_order([row_from(row[:-1]) for row in rows]))

        return self._db.statement(work)

    def _claim_slots(self, claim: Claim) -> Claimed | WrongShape | Expired:
        if claim.queue in self._contended:
            return self._claim_contended(claim)

        def work(run: Runner, again: bool) -> Claimed | WrongShape | Expired | None:
            if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
                return Claimed(held)
            given = {"most": claim.limit, **self._wanted(run, claim)}
            rows = run.rows(_CLAIM_SLOTS, given)
            if rows[0][0] is not None:
                return Claimed([row_from(row[:-1]) for row in rows])
            shape = rows[0][-1]
            return None if shape is None else _nothing(shape, "slots")

        found = self._db.statement(work)
        return self._claim_contended(claim) if found is None else found  # not all of the next jobs may run

    def _claim_contended(self, claim: Claim) -> Claimed:
        search = Search(claim.min_rank)
        found = self._two_trips.claim(claim, search)
        if search.least:
            self._contended.add(claim.queue)
        else:
            self._contended.discard(claim.queue)
        return found

    def _claim_lanes(self, claim: Claim) -> Claimed | WrongShape | Expired:
        def work(run: Runner, again: bool) -> Taken | None:
            if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
                return Taken(held, 0)
            given = {"most": claim.limit - len(rows), **self._wanted(run, claim)}
            return taken(run.rows(CLAIM_LANES, given))

        rows: dict[str, JobRow] = {}
        empty_rounds = 0
        while len(rows) < claim.limit and empty_rounds < _EMPTY_ROUNDS_MAX:
            found = self._db.statement(work)
            if found is None:
                if rows:
                    return Claimed(list(rows.values()))
                self._db.locked_leases.suspect(self._db.now())
                return self._claim_limited(claim)
            rows |= {row.id: row for row in found.rows}
            if not found.due_lanes:
                break
            empty_rounds = 0 if found.rows else empty_rounds + 1
        return Claimed(list(rows.values()))

    def _claim_limited(self, claim: Claim) -> Claimed:
        """Claim in a transaction, which also reads the shape that the next claim should assume."""
        search = Search(claim.min_rank, locks_queue=True)
        found = self._general.claim(claim, search)
        if search.settings is not None:
            self.shapes[claim.queue] = search.settings.shape
        return found

    def _wanted(self, run: Runner, claim: Claim) -> Params:
        """Return the parameters of a claim, but its limit; the lease of the queue is read only if it is needed."""
        settings = QueueSettings(claim.queue)
        if claim.worker is None and claim.lease is None:
            settings = self._queues.settings(run, claim.queue)
        return {"queue": claim.queue, "min_rank": claim.min_rank, **reservation(claim, settings)}


def _nothing(shape: str, route: QueueShape) -> Claimed | WrongShape | Expired:
    """Return the answer of a statement that has reserved nothing."""
    if shape.startswith(EXPIRED):
        return Expired(int(shape.removeprefix(EXPIRED)))
    return Claimed([]) if shape == route else WrongShape(shape)  # type: ignore[arg-type]
