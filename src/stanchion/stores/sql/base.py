"""What the parts of the SQL store work with that are not collaborators of their own yet."""

from __future__ import annotations

from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.flow_ends import FlowEnds, FlowEndStatements
from stanchion.stores.sql.flows import Flows
from stanchion.stores.sql.gate_statements import GateStatements
from stanchion.stores.sql.granting import Grants, PassesOn
from stanchion.stores.sql.jobs import Jobs, JobStatements
from stanchion.stores.sql.push import Inserts, InsertsRows, Push, Pushes
from stanchion.stores.sql.queue_rows import QueueRows
from stanchion.stores.sql.settle import Commits, HeldJobs, Outcomes, Settles, TransactionCommits
from stanchion.stores.sql.slots import SlotRows
from stanchion.stores.sql.statements import Statements
from stanchion.stores.sql.transactions import Transactions


class SqlBase:
    """The database, its statements, and the transactions that several parts share."""

    statements_of: type[Statements] = Statements
    flow_end_statements_of: type[FlowEndStatements] = FlowEndStatements
    job_statements_of: type[JobStatements] = JobStatements

    def __init__(self, database: Database) -> None:
        self.database, self.dialect = database, database.dialect
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self.statements = self.dialect.once(self.statements_of)
        self.queue_rows = QueueRows(database)
        self.jobs = Jobs(database, self.queue_rows, self.job_statements_of)
        self.slots = SlotRows(database)
        self.transactions = Transactions(database, self.queue_rows, self.make_grants())
        self.inserts = self.make_inserts()
        self.pushes = self.make_push()
        ends = FlowEnds(database, self.flow_end_statements_of)
        self.flows = Flows(database, self.transactions, self.jobs, self.queue_rows, self.pushes, ends)
        self.held_jobs = self.make_held_jobs()
        self.commits = self.make_commits()
        general = Outcomes(
            *(database, self.transactions, self.jobs, self.queue_rows, self.pushes, self.flows, self.held_jobs),
            self.commits,
        )
        self.outcomes = self.make_outcomes(general)
        self._gates = self.dialect.once(GateStatements)

    def make_grants(self) -> PassesOn:
        """Return what passes on slots."""
        return Grants(self.database, self.slots)

    def make_held_jobs(self) -> HeldJobs:
        """Return what locks held jobs."""
        return HeldJobs(self.database, self.queue_rows)

    def make_commits(self) -> Commits:
        """Return what carries out plain commits."""
        return TransactionCommits(self.held_jobs, self.jobs, self.flows)

    def make_outcomes(self, general: Outcomes) -> Settles:
        """Return what settles."""
        return general

    def make_inserts(self) -> InsertsRows:
        """Return what inserts rows of new jobs."""
        return Inserts(self.database, self.jobs)

    def make_push(self) -> Pushes:
        """Return what stores new jobs."""
        return Push(self.database, self.transactions, self.jobs, self.queue_rows, self.inserts)

    def clock(self, run: Runner) -> int:
        """Return the database's clock."""
        return self.database.clock(run)

    def now(self) -> int:
        """Return the store's clock."""
        return self.database.now()
