"""The MariaDB and MySQL store: few round trips, and whole sets in each."""

from __future__ import annotations

import time
from functools import cached_property

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.mariadb.claim import MariaDBClaims, SlotSteps
from stanchion.stores.mariadb.due import MariaDBDue, MariaDBLanePicks, MariaDBNextJobs, MariaDBReservations
from stanchion.stores.mariadb.moves import MariaDBMoves
from stanchion.stores.mariadb.push import MariaDBInserts, MariaDBInsertStatements
from stanchion.stores.mariadb.settle import MariaDBCommits, MariaDBHeldRows, MariaDBHeldStatements
from stanchion.stores.mariadb.stats import MariaDBStats
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.claims.ids import JobsById
from stanchion.stores.sql.claims.lanes import Lanes
from stanchion.stores.sql.claims.pick import DueJobs
from stanchion.stores.sql.claims.recover import Recovery
from stanchion.stores.sql.claims.reserve import Reservations
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Row, Runner
from stanchion.stores.sql.engine.setup import Setup
from stanchion.stores.sql.jobs.deletion import Deletion
from stanchion.stores.sql.jobs.push import Inserts
from stanchion.stores.sql.jobs.settle import HeldJobs
from stanchion.stores.sql.parts import Parts
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.store import SqlStore

_MOMENT = 0.02


class MariaDBRecovery(Recovery):
    """Frees lost jobs."""

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        freed = super().recover(limit, as_of)
        if len(freed) < limit and self._db.read(lambda run: run.rows(sql.ANY_EXPIRED, {"locked_leases": 0}))[0][0]:
            # A late holder locks its job for a moment, until it is refused.
            time.sleep(_MOMENT)
            freed += super().recover(limit - len(freed), as_of)
        return freed


_AT_ONCE = 1000


class MariaDBLiveDrop:
    """Deletes live jobs by their ids.

    A row found by an index entry is locked twice, in another order than by the transaction that ends the job.
    """

    def drop(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        ids = [one for (one,) in run.rows(sql.OF_QUEUE, {"queue": queue})]
        live, tied = 0, []
        for start in range(0, len(ids), _AT_ONCE):
            some = {"ids": ids[start : start + _AT_ONCE], "queues": [queue]}
            tied += [row for row in run.rows(sql.HELD_OF_THESE, some) if any(row[2:5])]
            live += run.change(sql.REMOVE, some)
        return live, tied


class MariaDBParts(Parts):
    """The collaborators of a MariaDB or MySQL store."""

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.db, self.queues, sql.MariaDBJobStatements)

    @cached_property
    def inserts(self) -> MariaDBInserts:
        return MariaDBInserts(self.jobs, Inserts(self.db, self.jobs, MariaDBInsertStatements))

    @cached_property
    def held_jobs(self) -> HeldJobs:
        return HeldJobs(self.db, self.queues, MariaDBHeldStatements)

    @cached_property
    def held_rows(self) -> MariaDBHeldRows:
        return MariaDBHeldRows(self.held_jobs)

    @cached_property
    def commits(self) -> MariaDBCommits:
        return MariaDBCommits(self.held_rows, self.jobs, self.general_commits)

    @cached_property
    def moves(self) -> MariaDBMoves:
        return MariaDBMoves(self.db, self.jobs, self.queues)

    @cached_property
    def recovery(self) -> MariaDBRecovery:
        return MariaDBRecovery(self.db, self.transactions, self.queues, self.flows, self.repair)

    @cached_property
    def general_due(self) -> DueJobs:
        return DueJobs(self.db, sql.MariaDBDueStatements)

    @cached_property
    def due(self) -> MariaDBDue:
        return MariaDBDue(self.general_due)

    @cached_property
    def reservations(self) -> Reservations:
        return Reservations(self.db, sql.MariaDBReservationStatements)

    @cached_property
    def reserves(self) -> MariaDBReservations:
        return MariaDBReservations(self.reservations)

    @cached_property
    def next_jobs(self) -> MariaDBNextJobs:
        return MariaDBNextJobs(self.general_next)

    @cached_property
    def lanes(self) -> Lanes:
        return Lanes(self.db, MariaDBLanePicks(self.db), sql.MariaDBLaneStatements)

    @cached_property
    def by_ids(self) -> JobsById:
        return JobsById(self.db, self.general_next, sql.MariaDBByIdStatements)

    @cached_property
    def routes(self) -> MariaDBClaims:
        steps = SlotSteps(self.db, self.admissions, self.general_claims)
        return MariaDBClaims(
            *(self.db, self.transactions, self.jobs, self.reservations),
            *(self.next_jobs, steps, self.general_claims),
        )

    @cached_property
    def stats(self) -> MariaDBStats:
        return MariaDBStats(self.db)

    @cached_property
    def purges(self) -> Purges:
        return Purges(self.db, sql.MariaDBPurgeStatements)

    @cached_property
    def live_drop(self) -> MariaDBLiveDrop:
        return MariaDBLiveDrop()

    @cached_property
    def deletion(self) -> Deletion:
        return Deletion(self.db, self.transactions, self.jobs, sql.MariaDBDeletionStatements)


class MariaDBStore(SqlStore):
    """Jobs in a MariaDB or MySQL database."""

    def __init__(self, db: Database) -> None:
        super().__init__(MariaDBParts(db), Setup(db))
