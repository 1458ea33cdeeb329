"""The PostgreSQL store: push, claim and commit are one statement each, which commits itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stanchion.stores.postgres.admit import PostgresDecisions, PostgresDue, TwoTrips
from stanchion.stores.postgres.arrow import ArrowConnections, postgres_text
from stanchion.stores.postgres.by_ids import PostgresByIds
from stanchion.stores.postgres.claim import PostgresClaims
from stanchion.stores.postgres.flows import PostgresFlowEndStatements
from stanchion.stores.postgres.moves import PostgresMoves
from stanchion.stores.postgres.outcomes import PostgresOutcomes
from stanchion.stores.postgres.prepared import CopyForm
from stanchion.stores.postgres.purge import PostgresPurgeStatements
from stanchion.stores.postgres.push import PostgresPush
from stanchion.stores.postgres.query import PostgresQueries
from stanchion.stores.postgres.release import PostgresGrants
from stanchion.stores.postgres.settle import PostgresCommits
from stanchion.stores.postgres.staging import CopyStaged, PostgresPlainFinish
from stanchion.stores.postgres.starts import PostgresStarts
from stanchion.stores.records.query import Query
from stanchion.stores.sql.claims.admit import Admissions, Parking
from stanchion.stores.sql.claims.claim import ClaimRounds, Claims, ShortClaims, TransactionClaims, UnseenReservations
from stanchion.stores.sql.claims.ids import JobsById, Starts
from stanchion.stores.sql.claims.lanes import LanePicks, Lanes
from stanchion.stores.sql.claims.order import InOrder, NextInLanes, NextJobs
from stanchion.stores.sql.claims.pick import DueJobs
from stanchion.stores.sql.claims.recover import Recovery
from stanchion.stores.sql.claims.reserve import Reservations
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.setup import Setup
from stanchion.stores.sql.jobs.deletion import Deletion
from stanchion.stores.sql.jobs.flow_ends import FlowEnds
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.jobs.push import Inserts, Push
from stanchion.stores.sql.jobs.settle import HeldJobs, Outcomes, TransactionCommits
from stanchion.stores.sql.limits.rate_reads import RateReads
from stanchion.stores.sql.limits.repair import SlotRepair
from stanchion.stores.sql.parts import Rows, Verbs
from stanchion.stores.sql.queues.drop import LiveDrop
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.reading.arrow import Arrow, statement
from stanchion.stores.sql.reading.query import Queries
from stanchion.stores.sql.reading.stats import Stats
from stanchion.stores.sql.staging.prepared import PreparedJobs
from stanchion.stores.sql.staging.staging import StagedJobs, Staging
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sql.values import Values

if TYPE_CHECKING:
    import pyarrow as pa


class PostgresStore(SqlStore):
    """Jobs in a PostgreSQL database."""

    def __init__(self, db: Database) -> None:
        rows = Rows(db, PostgresGrants)
        queues, jobs, slots, transactions = rows.queues, rows.jobs, rows.slots, rows.transactions
        inserts, values = Inserts(db, jobs), Values(db)
        pushes = PostgresPush(db, transactions, jobs, queues, general=Push(db, transactions, jobs, queues, inserts))
        flows = Flows(db, transactions, jobs, queues, pushes, FlowEnds(db, PostgresFlowEndStatements), values)
        held_jobs = HeldJobs(db, queues)
        commits = PostgresCommits(db, TransactionCommits(held_jobs, jobs, flows))
        general_outcomes = Outcomes(db, transactions, jobs, queues, pushes, flows, held_jobs, commits)
        outcomes = PostgresOutcomes(db, transactions, commits, PostgresMoves(db, queues), general_outcomes)
        recovery = Recovery(db, transactions, queues, flows, SlotRepair(db, transactions, slots))

        general_due, reservations = DueJobs(db), Reservations(db)
        due = PostgresDue(db, general_due)
        rates = RateReads(values)
        admissions = Admissions(db, slots, PostgresDecisions(db), rates)
        next_jobs = NextJobs(due, reservations, admissions)
        lanes = NextInLanes(Lanes(db, LanePicks(db)), next_jobs)
        rounds = ClaimRounds(Parking(db, transactions, slots, due))
        in_order = InOrder(db, queues, next_jobs, lanes)
        general = TransactionClaims(
            *(db, transactions, jobs, queues, recovery, reservations),
            *(next_jobs, lanes, in_order, JobsById(db, next_jobs), rounds),
        )
        two_trips = ShortClaims(transactions, reservations, rounds, general, TwoTrips(db, admissions).claim)
        unseen = UnseenReservations(transactions, jobs, queues, recovery, general_due, reservations)
        by_ids = PostgresByIds(db, queues, reservations, general)
        routes = PostgresClaims(db, queues, reservations, two_trips, general, unseen, by_ids)
        starts = Starts(db, transactions, jobs, queues, pushes, general, reservations)

        staged, prepared = CopyStaged(db, StagedJobs(db)), PreparedJobs(db, CopyForm(db.dialect.qualified))
        verbs = Verbs(
            pushes=pushes,
            inserts=inserts,
            flows=flows,
            outcomes=outcomes,
            recovery=recovery,
            claims=Claims(db, routes, routes, reservations, outcomes),
            starts=PostgresStarts(db, queues, by_ids, starts),
            staging=Staging(
                db, transactions, jobs, queues, pushes, commits, values, staged, PostgresPlainFinish(), prepared
            ),
            queries=PostgresQueries(db, Queries(db, jobs)),
            stats=Stats(db),
            purges=Purges(db, PostgresPurgeStatements),
            live_drop=LiveDrop(),
            deletion=Deletion(db, transactions, jobs),
            rates=rates,
        )
        super().__init__(db, rows, verbs, values, Setup(db))
        self._db, self._arrow_connections = db, ArrowConnections()
        self._arrow = Arrow(db, self._arrow_connections.read)

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        return self._arrow.select_arrow(query)

    def select_text(self, query: Query) -> str | None:
        wanted = statement(self._db, query)
        return None if wanted is None else postgres_text(self._db, *wanted)

    def close(self) -> None:
        super().close()
        self._arrow_connections.close()
