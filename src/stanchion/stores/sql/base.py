"""What the parts of the SQL store work with that are not collaborators of their own yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.sql.engine.database import CALL_SECONDS, Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs import Jobs, JobStatements, Step
from stanchion.stores.sql.queue_rows import QueueRows
from stanchion.stores.sql.statements import Statements

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

    def write(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> T:
        """Run `work` in one transaction; then wake those whom it has let go on. It is told when it is a repeat."""
        done, passed_over = self.write_once(work, seconds, durable=durable, together=together)
        if passed_over:
            self.look_again(passed_over)
        return done

    def write_once(
        self,
        work: Callable[[Runner, bool], T],
        seconds: float = CALL_SECONDS,
        *,
        durable: bool = True,
        together: bool = False,
    ) -> tuple[T, set[str]]:
        """Do what `write` does but a further look at the gates where it passed waiters over; return these as well."""
        runs: list[Runner] = []

        def noted(run: Runner, again: bool) -> T:
            runs[:] = [run]
            done = work(run, again)
            self.pass_on_slots(run)
            return done

        done = self.database.write(noted, seconds, durable=durable, together=together)
        (run,) = runs
        self.tell(run)
        return done, run.passed_over

    @abstractmethod
    def pass_on_slots(self, run: Runner) -> None:
        """Give back the slots that were set free, and grant them to the next: the last step of each transaction."""

    @abstractmethod
    def look_again(self, gates: set[str]) -> None:
        """Grant free slots of these gates to waiters that others had locked."""

    def tell(self, run: Runner) -> None:
        """Wake those for whom there is news in what was committed."""
        if run.woken or run.ended:
            self.dialect.announce(run.woken, run.ended)

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
