"""The collaborators of an SQL store, as all databases share them."""

from __future__ import annotations

from functools import cached_property

from stanchion.stores.sql.claims.admit import Admissions, CarriesOut, Decisions, Parking
from stanchion.stores.sql.claims.claim import (
    ClaimRounds,
    Claims,
    ClaimsJobs,
    ReservesUnseen,
    TransactionClaims,
    UnseenReservations,
)
from stanchion.stores.sql.claims.ids import JobsById, PushesToRun, Starts
from stanchion.stores.sql.claims.lanes import LanePicks, Lanes
from stanchion.stores.sql.claims.order import InOrder, NextInLanes, NextJobs, ReservesNext
from stanchion.stores.sql.claims.pick import DueJobs, FindsDue
from stanchion.stores.sql.claims.recover import Recovery
from stanchion.stores.sql.claims.reserve import Reservations, Reserves
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.jobs.deletion import Deletion
from stanchion.stores.sql.jobs.flow_ends import FlowEnds
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.jobs.moves import Moves, Passes
from stanchion.stores.sql.jobs.push import Inserts, InsertsRows, Push, Pushes
from stanchion.stores.sql.jobs.settle import Commits, HeldJobs, HeldRows, Outcomes, Settles, TransactionCommits
from stanchion.stores.sql.limits.rate_reads import RateReads
from stanchion.stores.sql.limits.repair import SlotRepair
from stanchion.stores.sql.queues.drop import DropsLive, LiveDrop
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.reading.query import Queries, ReadsJobs
from stanchion.stores.sql.reading.stats import Stats
from stanchion.stores.sql.rows.grants import Grants, PassesOn
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.slots import SlotRows
from stanchion.stores.sql.rows.tables import Tables
from stanchion.stores.sql.rows.transactions import Transactions
from stanchion.stores.sql.staging.insert_form import InsertForm
from stanchion.stores.sql.staging.prepared import PreparedForm, PreparedJobs
from stanchion.stores.sql.staging.staging import FinishesPlain, KeepsStaged, PlainFinish, StagedJobs, Staging
from stanchion.stores.sql.tables.made import MadeTables
from stanchion.stores.sql.tables.write import TableWrites, WritesRows
from stanchion.stores.sql.values import Values


class Parts:
    """The collaborators of an SQL store, each made on first use. A database replaces the ones that it has of its own.

    What is called `general` fits every case; the part without that word may be faster, and falls back on it.
    """

    def __init__(self, db: Database) -> None:
        self.db = db

    # -- rows

    @cached_property
    def queues(self) -> QueueRows:
        return QueueRows(self.db)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.db, self.queues)

    @cached_property
    def slots(self) -> SlotRows:
        return SlotRows(self.db)

    @cached_property
    def grants(self) -> PassesOn:
        return Grants(self.db, self.slots)

    @cached_property
    def transactions(self) -> Transactions:
        return Transactions(self.db, self.queues, self.grants)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.db, self.transactions, self.jobs, self.queues)

    @cached_property
    def values(self) -> Values:
        return Values(self.db)

    # -- push, flows and outcomes

    @cached_property
    def inserts(self) -> InsertsRows:
        return Inserts(self.db, self.jobs)

    @cached_property
    def general_pushes(self) -> Push:
        return Push(self.db, self.transactions, self.jobs, self.queues, self.inserts)

    @cached_property
    def pushes(self) -> Pushes:
        return self.general_pushes

    @cached_property
    def flow_ends(self) -> FlowEnds:
        return FlowEnds(self.db)

    @cached_property
    def flows(self) -> Flows:
        return Flows(self.tables, self.pushes, self.flow_ends, self.values)

    @cached_property
    def held_jobs(self) -> HeldJobs:
        return HeldJobs(self.db, self.queues)

    @cached_property
    def held_rows(self) -> HeldRows:
        return self.held_jobs

    @cached_property
    def general_commits(self) -> TransactionCommits:
        return TransactionCommits(self.held_rows, self.jobs, self.flows)

    @cached_property
    def commits(self) -> Commits:
        return self.general_commits

    @cached_property
    def moves(self) -> Moves | None:
        return None

    @cached_property
    def passes(self) -> Passes | None:
        return None

    @cached_property
    def general_outcomes(self) -> Outcomes:
        by_kind = self.commits, self.moves, self.passes
        return Outcomes(self.tables, self.pushes, self.flows, self.held_jobs, *by_kind, self.table_writes)

    @cached_property
    def result_tables(self) -> MadeTables:
        return MadeTables(self.db)

    @cached_property
    def table_writes(self) -> WritesRows:
        return TableWrites(self.db, self.result_tables)

    @cached_property
    def outcomes(self) -> Settles:
        return self.general_outcomes

    @cached_property
    def recovery(self) -> Recovery:
        return Recovery(self.db, self.transactions, self.queues, self.flows, self.repair)

    @cached_property
    def repair(self) -> SlotRepair:
        return SlotRepair(self.db, self.transactions, self.slots)

    # -- claims

    @cached_property
    def general_due(self) -> DueJobs:
        return DueJobs(self.db)

    @cached_property
    def due(self) -> FindsDue:
        return self.general_due

    @cached_property
    def reservations(self) -> Reservations:
        return Reservations(self.db)

    @cached_property
    def reserves(self) -> Reserves:
        return self.reservations

    @cached_property
    def decisions(self) -> CarriesOut:
        return Decisions(self.db, self.jobs, self.slots, self.reserves)

    @cached_property
    def rates(self) -> RateReads:
        return RateReads(self.values)

    @cached_property
    def admissions(self) -> Admissions:
        return Admissions(self.db, self.slots, self.decisions, self.rates)

    @cached_property
    def general_next(self) -> NextJobs:
        return NextJobs(self.due, self.reserves, self.admissions)

    @cached_property
    def next_jobs(self) -> ReservesNext:
        return self.general_next

    @cached_property
    def lanes(self) -> Lanes:
        return Lanes(self.db, LanePicks(self.db))

    @cached_property
    def next_in_lanes(self) -> NextInLanes:
        return NextInLanes(self.lanes, self.general_next)

    @cached_property
    def in_order(self) -> InOrder:
        return InOrder(self.db, self.queues, self.next_jobs, self.next_in_lanes)

    @cached_property
    def by_ids(self) -> JobsById:
        return JobsById(self.db, self.general_next)

    @cached_property
    def parking(self) -> Parking:
        return Parking(self.db, self.transactions, self.slots, self.due)

    @cached_property
    def rounds(self) -> ClaimRounds:
        return ClaimRounds(self.parking)

    @cached_property
    def general_claims(self) -> TransactionClaims:
        return TransactionClaims(
            self.tables,
            self.recovery,
            self.reservations,
            self.next_jobs,
            self.next_in_lanes,
            self.in_order,
            self.by_ids,
            self.rounds,
        )

    @cached_property
    def general_unseen(self) -> UnseenReservations:
        return UnseenReservations(
            *(self.transactions, self.jobs, self.queues, self.recovery), *(self.general_due, self.reservations)
        )

    @cached_property
    def unseen(self) -> ReservesUnseen:
        return self.general_unseen

    @cached_property
    def routes(self) -> ClaimsJobs:
        return self.general_claims

    @cached_property
    def claims(self) -> ClaimsJobs:
        return Claims(self.db, self.routes, self.unseen, self.reservations, self.outcomes)

    @cached_property
    def starts(self) -> PushesToRun:
        return Starts(self.tables, self.pushes, self.general_claims, self.reservations, self.general_pushes)

    # -- staging, reads and upkeep

    @cached_property
    def staged(self) -> KeepsStaged:
        return StagedJobs(self.db)

    @cached_property
    def plain_finish(self) -> FinishesPlain:
        return PlainFinish(self.db, self.jobs, self.queues)

    @cached_property
    def prepared_form(self) -> PreparedForm:
        return InsertForm(self.db)

    @cached_property
    def staging(self) -> Staging:
        return Staging(
            self.tables,
            *(self.pushes, self.commits, self.general_outcomes, self.values),
            *(self.staged, self.plain_finish, PreparedJobs(self.db, self.prepared_form)),
        )

    @cached_property
    def queries(self) -> ReadsJobs:
        return Queries(self.db, self.jobs)

    @cached_property
    def stats(self) -> Stats:
        return Stats(self.db)

    @cached_property
    def purges(self) -> Purges:
        return Purges(self.db)

    @cached_property
    def live_drop(self) -> DropsLive:
        return LiveDrop()

    @cached_property
    def deletion(self) -> Deletion:
        return Deletion(self.db, self.transactions, self.jobs)
