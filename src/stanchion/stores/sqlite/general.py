"""The general way into a SQLite file: every verb, by the statements that all SQL stores share."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import URL

from stanchion.stores.sql.claims.admit import Admissions, Decisions, Parking
from stanchion.stores.sql.claims.claim import ClaimRounds, Claims, TransactionClaims, UnseenReservations
from stanchion.stores.sql.claims.ids import JobsById, Starts
from stanchion.stores.sql.claims.lanes import Lanes
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
from stanchion.stores.sql.reading.arrow import Arrow, from_sqlite
from stanchion.stores.sql.reading.query import Queries
from stanchion.stores.sql.reading.stats import Stats
from stanchion.stores.sql.staging.insert_form import InsertForm
from stanchion.stores.sql.staging.prepared import PreparedJobs
from stanchion.stores.sql.staging.staging import PlainFinish, StagedJobs, Staging
from stanchion.stores.sql.values import Values
from stanchion.stores.sqlite.claim import SqliteGrants, SqliteLanePicks, SqliteReservations
from stanchion.stores.sqlite.dialect import SqliteDialect
from stanchion.stores.sqlite.file import StoreFile
from stanchion.stores.sqlite.misfits import ClaimsPastMisfits, Misfits
from stanchion.stores.sqlite.moves import SqliteMoves
from stanchion.stores.sqlite.settle import SqliteCommits


class General(NamedTuple):
    """The collaborators of a SQLite store."""

    database: Database
    rows: Rows
    verbs: Verbs
    values: Values
    schema: Setup
    misfits: Misfits
    arrow: Arrow


def general(path: str, dialect: SqliteDialect, file: StoreFile) -> General:
    """Return the collaborators of the store in a file."""
    db = Database(URL.create("sqlite", database=path), dialect)
    rows = Rows(db, SqliteGrants)
    queues, jobs, slots, transactions = rows.queues, rows.jobs, rows.slots, rows.transactions
    inserts, values = Inserts(db, jobs), Values(db)
    pushes = Push(db, transactions, jobs, queues, inserts)
    flows = Flows(db, transactions, jobs, queues, pushes, FlowEnds(db), values)
    held_jobs = HeldJobs(db, queues)
    commits = SqliteCommits(db, held_jobs, jobs, TransactionCommits(held_jobs, jobs, flows))
    moves = SqliteMoves(db, jobs, queues)
    outcomes = Outcomes(db, transactions, jobs, queues, pushes, flows, held_jobs, commits, moves)
    recovery = Recovery(db, transactions, queues, flows, SlotRepair(db, transactions, slots))

    due, reservations = DueJobs(db), Reservations(db)
    reserves = SqliteReservations(db, reservations)
    rates = RateReads(values)
    admissions = Admissions(db, slots, Decisions(db, jobs, slots, reserves), rates)
    next_jobs = NextJobs(due, reserves, admissions)
    lanes = NextInLanes(Lanes(db, SqliteLanePicks(db)), next_jobs)
    rounds = ClaimRounds(Parking(db, transactions, slots, due))
    in_order = InOrder(db, queues, next_jobs, lanes)
    general = TransactionClaims(
        *(db, transactions, jobs, queues, recovery, reservations),
        *(next_jobs, lanes, in_order, JobsById(db, next_jobs), rounds),
    )
    unseen = UnseenReservations(transactions, jobs, queues, recovery, due, reservations)

    misfits = Misfits(db, transactions, queues, flows)
    staged, plain = StagedJobs(db), PlainFinish(db, jobs, queues)
    prepared = PreparedJobs(db, InsertForm(db))
    verbs = Verbs(
        pushes=pushes,
        inserts=inserts,
        flows=flows,
        outcomes=outcomes,
        recovery=recovery,
        claims=ClaimsPastMisfits(Claims(db, general, unseen, reservations, outcomes), misfits),
        starts=Starts(db, transactions, jobs, queues, pushes, general, reservations, pushes),
        staging=Staging(db, transactions, jobs, queues, pushes, commits, values, staged, plain, prepared),
        queries=Queries(db, jobs),
        stats=Stats(db),
        purges=Purges(db),
        live_drop=LiveDrop(),
        deletion=Deletion(db, transactions, jobs),
        rates=rates,
    )
    return General(db, rows, verbs, values, Setup(db, before=file.accept), misfits, Arrow(db, from_sqlite))
