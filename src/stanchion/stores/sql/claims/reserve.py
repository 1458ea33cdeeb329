"""Reservation: locked jobs become running under the token of a claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import BigInteger, Executable, String, func, select, text, update

from stanchion.stores.fields.jobs import LIMITS
from stanchion.stores.fields.sql import begun, changes
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.engine.columns import claimed_row, in_time, param, under_token
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner
from stanchion.stores.sql.engine.schema import CLAIMED_COLUMNS, jobs
from stanchion.stores.sql.rows.contents import row_from
from stanchion.stores.sql.rows.jobs import in_order

Asks = tuple[Params, Sequence[str]]
"""The parameters that reserve jobs holding the same number of slots, and the ids of these jobs."""


class Reserves(Protocol):
    """Reserves locked jobs, and returns their rows after the change."""

    def plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> Sequence[JobRow]:
        """Reserve the jobs among these that need no slot."""

    def with_slots(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        """Reserve jobs that need only semaphores, together with their slots: all of them, or none.

        A store without a statement for this returns no rows.
        """

    def admitted(self, run: Runner, asks: Sequence[Asks], *, last: bool = False) -> list[JobRow]:
        """Reserve jobs that have got their slots; `last`: see `Runner.all_rows`."""


class ReservationStatements:
    """The statements that reserve, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        now, ids = dialect.now, dialect.values("ids", jobs.c.id.type)
        queue = param("queue", String)
        changed: dict[str, object] = {name: text(term) for name, term in begun("NULL", started_at="NULL").items()}
        changed |= {"lease_until": now + param("lease_micros", BigInteger), "started_at": now}
        plain = (
            update(jobs)
            .where(jobs.c.queue == queue, jobs.c.id.in_(ids), *(jobs.c[name].is_(None) for name in LIMITS))
            .values(changed)
        )
        self.plain_unseen: Executable = plain.where(
            *(jobs.c[name].is_(None) for name in ("items", "expires")), *dialect.readable()
        )
        self.plain = plain.returning(*claimed_row())
        self.admitted = text(f"""
            UPDATE stanchion_jobs {dialect.by("PRIMARY")}
            SET {changes(begun())}, slots_held = :slots_held
            WHERE queue = :queue AND {dialect.among("id", "ids", "uuid")} {dialect.returning(CLAIMED_COLUMNS)}
        """)
        self.held = select(*claimed_row()).where(under_token())
        self.count_held = select(func.count()).select_from(jobs).where(under_token(), in_time(now))


class Reservations:
    """Reserves locked jobs, and finds the jobs that a token holds."""

    def __init__(self, db: Database, statements: type[ReservationStatements] = ReservationStatements) -> None:
        self._statements = db.dialect.once(statements)

    def held(self, run: Runner, claim: Claim) -> list[JobRow]:
        """Return the jobs that an earlier try of this claim reserved, if its reply was lost."""
        return in_order(run.rows(self._statements.held, {"queue": claim.queue, "token": claim.token}))

    def count_held(self, run: Runner, queue: str, token: str) -> int:
        """Return how many jobs are reserved under a token with a valid lease."""
        return int(run.rows(self._statements.count_held, {"queue": queue, "token": token})[0][0])

    def plain(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> Sequence[JobRow]:
        given = {"ids": json.dumps(ids), **reservation(claim, settings)}
        return [row_from(row) for row in run.rows(self._statements.plain, given)]

    def plain_unseen(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> int:
        """Reserve those that need no slot, never expire, carry one item and can be read, unread; return how many."""
        return run.change(self._statements.plain_unseen, {"ids": json.dumps(ids), **reservation(claim, settings)})

    def with_slots(self, run: Runner, claim: Claim, settings: QueueSettings, ids: Sequence[str]) -> list[JobRow]:
        return []

    def send_admitted(self, run: Runner, asks: Sequence[Asks]) -> None:
        """Reserve jobs that have got their slots, on a database whose UPDATE returns no rows."""
        for given, _ in asks:
            run.send(self._statements.admitted, given)

    def admitted(self, run: Runner, asks: Sequence[Asks], *, last: bool = False) -> list[JobRow]:
        answers = run.all_rows([(self._statements.admitted, given) for given, _ in asks], last=last)
        return [row_from(row) for rows in answers for row in rows]


def leased(queue: str, lease: float | None) -> QueueSettings:
    """Return default settings with the stored lease of a queue; None: the queue has no row yet."""
    return QueueSettings(queue) if lease is None else QueueSettings(queue, lease=lease)


def lease_of(claim: Claim, settings: QueueSettings) -> float:
    """Return the lease of the claim in seconds, or else the queue's own."""
    return settings.lease if claim.lease is None else claim.lease


def reservation(claim: Claim, settings: QueueSettings) -> Params:
    """Return the parameters of a reservation by this claim; its lease has no end if a worker's heartbeats renew it."""
    return {
        "queue": claim.queue,
        "token": claim.token,
        "worker": claim.held_by,
        "delivery": claim.delivery,
        "lease_micros": None if claim.worker is not None else int(lease_of(claim, settings) * SECOND),
    }


def reservation_at(claim: Claim, settings: QueueSettings, now: int) -> Params:
    """Return the parameters of a reservation by this claim at `now`, a time of the store's clock."""
    return {
        "queue": claim.queue,
        "token": claim.token,
        "worker": claim.held_by,
        "delivery": claim.delivery,
        "started_at": now,
        "lease_until": None if claim.worker else now + int(lease_of(claim, settings) * SECOND),
    }
