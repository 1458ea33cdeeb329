"""What the parts of the SQL store work with that are not collaborators of their own yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.gate_statements import GateStatements
from stanchion.stores.sql.granting import Grants, PassesOn
from stanchion.stores.sql.jobs import Jobs, JobStatements, Step
from stanchion.stores.sql.queue_rows import QueueRows
from stanchion.stores.sql.slots import SlotRows
from stanchion.stores.sql.statements import Statements
from stanchion.stores.sql.transactions import Transactions

T = TypeVar("T")


class SqlBase(ABC):
    """The database, its statements, and the transactions that several parts share."""

    statements_of: type[Statements] = Statements
    job_statements_of: type[JobStatements] = JobStatements

    def __init__(self, database: Database) -> None:
        self.database, self.dialect = database, database.dialect
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self.statements = self.dialect.once(self.statements_of)
        self.queue_rows = QueueRows(database)
        self.jobs = Jobs(database, self.queue_rows, self.job_statements_of)
        self.slots = SlotRows(database)
        self.transactions = Transactions(database, self.queue_rows, self.make_grants())
        self._gates = self.dialect.once(GateStatements)

    def make_grants(self) -> PassesOn:
        """Return what passes on slots."""
        return Grants(self.database, self.slots)

    @abstractmethod
    def follow(self, run: Runner, steps: Sequence[Step]) -> None:
        """Do what follows from steps, in the same transaction."""

    def clock(self, run: Runner) -> int:
        """Return the database's clock."""
        return self.database.clock(run)

    def now(self) -> int:
        """Return the store's clock."""
        return self.database.now()

    def store(self, run: Runner, before: Sequence[JobRow], after: Sequence[Transition]) -> None:
        """Write the rows that locked live jobs have become, count the steps, and do what follows from them."""
        self.jobs.put(run, before, after)
        self.follow(run, [Step(row, *step) for row, step in zip(before, after, strict=True)])
