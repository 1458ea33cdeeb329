"""The general way into a SQLite file: every verb, by the statements that all SQL stores share."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import URL

from stanchion.stores.sql.claims.lanes import Lanes
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.parts import Parts
from stanchion.stores.sql.reading.arrow import Arrow, from_sqlite
from stanchion.stores.sqlite.claim import SqliteGrants, SqliteLanePicks, SqliteReservations
from stanchion.stores.sqlite.dialect import SqliteDialect
from stanchion.stores.sqlite.misfits import ClaimsPastMisfits, Misfits
from stanchion.stores.sqlite.outcomes.commits import SqliteCommits
from stanchion.stores.sqlite.outcomes.moves import SqliteMoves
from stanchion.stores.sqlite.outcomes.passes import SqlitePasses


class SqliteParts(Parts):
    """The collaborators of a SQLite store."""

    @cached_property
    def grants(self) -> SqliteGrants:
        return SqliteGrants(self.db, self.slots)

    @cached_property
    def commits(self) -> SqliteCommits:
        return SqliteCommits(self.db, self.held_jobs, self.jobs, self.general_commits)

    @cached_property
    def moves(self) -> SqliteMoves:
        return SqliteMoves(self.db, self.jobs, self.queues)

    @cached_property
    def passes(self) -> SqlitePasses:
        return SqlitePasses(self.db, self.jobs, self.queues)

    @cached_property
    def reservations(self) -> SqliteReservations:
        return SqliteReservations(self.db)

    @cached_property
    def lanes(self) -> Lanes:
        return Lanes(self.db, SqliteLanePicks(self.db))

    @cached_property
    def misfits(self) -> Misfits:
        return Misfits(self.db, self.transactions, self.queues, self.flows)

    @cached_property
    def claims(self) -> ClaimsPastMisfits:
        return ClaimsPastMisfits(super().claims, self.misfits)

    @cached_property
    def arrow(self) -> Arrow:
        return Arrow(self.db, from_sqlite)


def general(path: str, dialect: SqliteDialect) -> SqliteParts:
    """Return the collaborators of the store in a file."""
    return SqliteParts(Database(URL.create("sqlite", database=path), dialect))
