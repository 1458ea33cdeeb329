"""The collaborators of an SQL store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stanchion.stores.sql.claims.claim import ClaimsJobs
from stanchion.stores.sql.claims.ids import PushesToRun
from stanchion.stores.sql.claims.recover import Recovery
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.jobs.deletion import Deletion
from stanchion.stores.sql.jobs.flows import Flows
from stanchion.stores.sql.jobs.push import InsertsRows, Pushes
from stanchion.stores.sql.jobs.settle import Settles
from stanchion.stores.sql.limits.rate_reads import RateReads
from stanchion.stores.sql.queues.drop import DropsLive
from stanchion.stores.sql.queues.purge import Purges
from stanchion.stores.sql.reading.query import ReadsJobs
from stanchion.stores.sql.reading.stats import Stats
from stanchion.stores.sql.rows.grants import Grants, PassesOn
from stanchion.stores.sql.rows.jobs import Jobs, JobStatements
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.slots import SlotRows
from stanchion.stores.sql.rows.transactions import Transactions
from stanchion.stores.sql.staging.staging import Staging


class Rows:
    """The rows of queues, jobs and slots that the verbs share, and the transactions that change them."""

    def __init__(
        self,
        db: Database,
        grants: Callable[[Database, SlotRows], PassesOn] = Grants,
        job_statements: type[JobStatements] = JobStatements,
    ) -> None:
        self.queues = QueueRows(db)
        self.jobs = Jobs(db, self.queues, job_statements)
        self.slots = SlotRows(db)
        self.transactions = Transactions(db, self.queues, grants(db, self.slots))


class Verbs(NamedTuple):
    """The collaborators that differ between SQL databases, or that other collaborators need."""

    pushes: Pushes
    inserts: InsertsRows
    flows: Flows
    outcomes: Settles
    recovery: Recovery
    claims: ClaimsJobs
    starts: PushesToRun
    staging: Staging
    queries: ReadsJobs
    stats: Stats
    purges: Purges
    live_drop: DropsLive
    deletion: Deletion
    rates: RateReads
