"""The tables of jobs and queues, with the database and the transactions that write them."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions


class Tables(NamedTuple):
    """The collaborators of every verb that writes jobs."""

    db: Database
    transactions: Transactions
    jobs: Jobs
    queues: QueueRows
