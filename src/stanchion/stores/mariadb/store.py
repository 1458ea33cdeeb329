"""The MariaDB and MySQL store: few round trips, and whole sets in each."""

from __future__ import annotations

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.mariadb.claim import MariaDBClaims, SlotSteps
from stanchion.stores.mariadb.drop import MariaDBLiveDrop
from stanchion.stores.mariadb.due import MariaDBDue, MariaDBLanePicks, MariaDBNextJobs, MariaDBReservations
from stanchion.stores.mariadb.moves import MariaDBMoves
from stanchion.stores.mariadb.push import MariaDBInserts, MariaDBInsertStatements
from stanchion.stores.mariadb.recovery import MariaDBRecovery
from stanchion.stores.mariadb.settle import MariaDBCommits, MariaDBHeldRows, MariaDBHeldStatements
from stanchion.stores.mariadb.stats import MariaDBStats
from stanchion.stores.sql.claims.admit import Admissions, Decisions, Parking
from stanchion.stores.sql.claims.claim import ClaimRounds, Claims, ShortClaims, TransactionClaims, UnseenReservations
from stanchion.stores.sql.claims.ids import JobsById, Starts
from stanchion.stores.sql.claims.lanes import Lanes
from stanchion.stores.sql.claims.order import InOrder, NextInLanes, NextJobs
from stanchion.stores.sql.claims.pick import DueJobs
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
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.reading.query import Queries
from stanchion.stores.sql.staging.insert_form import InsertForm
from stanchion.stores.sql.staging.prepared import PreparedJobs
from stanchion.stores.sql.staging.staging import PlainFinish, StagedJobs, Staging
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sql.values import Values


class MariaDBStore(SqlStore):
    """Jobs in a MariaDB or MySQL database."""

    def __init__(self, db: Database) -> None:
        rows = Rows(db, job_statements=sql.MariaDBJobStatements)
        queues, jobs, slots, transactions = rows.queues, rows.jobs, rows.slots, rows.transactions
        inserts = MariaDBInserts(jobs, Inserts(db, jobs, MariaDBInsertStatements))
        values = Values(db)
        pushes = Push(db, transactions, jobs, queues, inserts)
        flows = Flows(db, transactions, jobs, queues, pushes, FlowEnds(db), values)
        held_jobs = HeldJobs(db, queues, MariaDBHeldStatements)
        held_rows = MariaDBHeldRows(held_jobs)
        commits = MariaDBCommits(held_rows, jobs, TransactionCommits(held_rows, jobs, flows))
        moves = MariaDBMoves(db, jobs, queues)
        outcomes = Outcomes(db, transactions, jobs, queues, pushes, flows, held_jobs, commits, moves)
        recovery = MariaDBRecovery(db, transactions, queues, flows, SlotRepair(db, transactions, slots))

        general_due = DueJobs(db, sql.MariaDBDueStatements)
        due = MariaDBDue(general_due)
        reservations = Reservations(db, sql.MariaDBReservationStatements)
        reserves = MariaDBReservations(reservations)
        rates = RateReads(values)
        admissions = Admissions(db, slots, Decisions(db, jobs, slots, reserves), rates)
        general_next = NextJobs(due, reserves, admissions)
        next_jobs = MariaDBNextJobs(general_next)
        lanes = NextInLanes(Lanes(db, MariaDBLanePicks(db), sql.MariaDBLaneStatements), general_next)
        rounds = ClaimRounds(Parking(db, transactions, slots, due))
        in_order = InOrder(db, queues, next_jobs, lanes)
        general = TransactionClaims(
            *(db, transactions, jobs, queues, recovery, reservations),
            *(next_jobs, lanes, in_order, JobsById(db, general_next, sql.MariaDBByIdStatements), rounds),
        )
        slot_claims = ShortClaims(transactions, reservations, rounds, general, SlotSteps(db, admissions).claim)
        claims = MariaDBClaims(db, transactions, jobs, reservations, next_jobs, slot_claims, general)
        unseen = UnseenReservations(transactions, jobs, queues, recovery, general_due, reservations)

        staged, plain = StagedJobs(db), PlainFinish(db, jobs, queues)
        prepared = PreparedJobs(db, InsertForm(db))
        verbs = Verbs(
            pushes=pushes,
            inserts=inserts,
            flows=flows,
            outcomes=outcomes,
            recovery=recovery,
            claims=Claims(db, claims, unseen, reservations, outcomes),
            starts=Starts(db, transactions, jobs, queues, pushes, general, reservations, pushes),
            staging=Staging(db, transactions, jobs, queues, pushes, commits, values, staged, plain, prepared),
            queries=Queries(db, jobs),
            stats=MariaDBStats(db),
            purges=Purges(db, sql.MariaDBPurgeStatements),
            live_drop=MariaDBLiveDrop(),
            deletion=Deletion(db, transactions, jobs, sql.MariaDBDeletionStatements),
            rates=rates,
        )
        super().__init__(db, rows, verbs, values, Setup(db))
