"""The PostgreSQL store: push, claim and commit are one statement each, which commits itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import text

from stanchion.core.values.framing import as_text
from stanchion.stores.ports import SelectText, as_port
from stanchion.stores.postgres.arrow import ArrowConnections, postgres_text
from stanchion.stores.postgres.claims.admit import PostgresDecisions, PostgresDue, TwoTrips
from stanchion.stores.postgres.claims.claim import PostgresClaims
from stanchion.stores.postgres.claims.starts import PostgresStarts
from stanchion.stores.postgres.outcomes.commits import PostgresCommits
from stanchion.stores.postgres.outcomes.divisions import PostgresDivisions
from stanchion.stores.postgres.outcomes.moves import PostgresMoves
from stanchion.stores.postgres.outcomes.passes import PostgresPasses
from stanchion.stores.postgres.outcomes.routes import PostgresOutcomes
from stanchion.stores.postgres.pick import NOW
from stanchion.stores.postgres.prepared import CopyForm
from stanchion.stores.postgres.push import PostgresPush
from stanchion.stores.postgres.query import PostgresQueries
from stanchion.stores.postgres.release import PostgresGrants
from stanchion.stores.postgres.staging import CopyStaged, PostgresPlainFinish
from stanchion.stores.records.flows import MemberEnd
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.query import Query
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.claims.ids import Starts
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params
from stanchion.stores.sql.engine.setup import Setup
from stanchion.stores.sql.jobs.flow_ends import FlowEnds, FlowEndStatements
from stanchion.stores.sql.parts import Parts
from stanchion.stores.sql.queues.purge import Purges, PurgeStatements
from stanchion.stores.sql.reading.arrow import Arrow, statement
from stanchion.stores.sql.reading.query import Queries
from stanchion.stores.sql.staging.staging import StagedJobs
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.sql.tables.recordset import RecordsetWrites

if TYPE_CHECKING:
    import pyarrow as pa

    from stanchion.stores.protocol import Port

_PURGE = f"""
    -- The planner assumes that an array is small; for a join it might read all of history to purge a portion of it.
    -- Rows that others are deleting are skipped, so that several processes share the work.
    DELETE FROM stanchion_history WHERE id = ANY (ARRAY(
        SELECT id FROM stanchion_history
        WHERE queue = :queue AND {{from_where}} finished_at <= (
            {NOW} - coalesce(
                CAST(:age_micros AS BIGINT),
                (SELECT CAST(history_ttl * 1000000 AS BIGINT) FROM stanchion_queues WHERE name = :queue),
                {int(QueueSettings("").history_ttl * SECOND)}
            )
        )
        ORDER BY finished_at LIMIT :most FOR UPDATE SKIP LOCKED
    )) {{returning}}
"""


class PostgresPurgeStatements(PurgeStatements):
    """The shared statements, with a special purge."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.purge = text(_PURGE.format(from_where="", returning=""))
        self.purge_on = text(_PURGE.format(from_where="finished_at >= :after AND", returning="RETURNING finished_at"))


_ADD_ENDS = text("""
    INSERT INTO stanchion_flow_ends (node, member_index, job, child, state, result)
    SELECT * FROM jsonb_to_recordset(CAST(:ends AS jsonb)) AS given (
        node uuid, index int, job uuid, child uuid, state text, result text
    )
""")


class PostgresFlowEndStatements(FlowEndStatements):
    """The shared statements; the insert takes any number of ends."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.add = _ADD_ENDS

    def added(self, ends: Sequence[MemberEnd]) -> list[Params]:
        return [{"ends": json.dumps([end._asdict() for end in ends], default=as_text)}]


class PostgresParts(Parts):
    """The collaborators of a PostgreSQL store."""

    @cached_property
    def grants(self) -> PostgresGrants:
        return PostgresGrants(self.db, self.slots)

    @cached_property
    def pushes(self) -> PostgresPush:
        return PostgresPush(self.db, self.transactions, self.jobs, self.queues, general=self.general_pushes)

    @cached_property
    def flow_ends(self) -> FlowEnds:
        return FlowEnds(self.db, PostgresFlowEndStatements)

    @cached_property
    def commits(self) -> PostgresCommits:
        return PostgresCommits(self.db, self.general_commits)

    @cached_property
    def outcomes(self) -> PostgresOutcomes:
        at_once = PostgresMoves(self.db, self.queues), PostgresPasses(self.queues), PostgresDivisions(self.queues)
        return PostgresOutcomes(self.db, self.transactions, self.commits, *at_once, self.general_outcomes)

    @cached_property
    def table_writes(self) -> RecordsetWrites:
        return RecordsetWrites(self.db, self.result_tables)

    @cached_property
    def due(self) -> PostgresDue:
        return PostgresDue(self.db, self.general_due)

    @cached_property
    def decisions(self) -> PostgresDecisions:
        return PostgresDecisions(self.db)

    @cached_property
    def routes(self) -> PostgresClaims:
        two_trips = TwoTrips(self.db, self.admissions, self.general_claims)
        general = self.general_claims, self.general_unseen
        return PostgresClaims(self.db, self.queues, self.reservations, two_trips, *general)

    @cached_property
    def unseen(self) -> PostgresClaims:
        return self.routes

    @cached_property
    def starts(self) -> PostgresStarts:
        general = Starts(self.tables, self.pushes, self.general_claims, self.reservations)
        return PostgresStarts(self.db, self.queues, self.routes, general)

    @cached_property
    def staged(self) -> CopyStaged:
        return CopyStaged(self.db, StagedJobs(self.db))

    @cached_property
    def plain_finish(self) -> PostgresPlainFinish:
        return PostgresPlainFinish()

    @cached_property
    def prepared_form(self) -> CopyForm:
        return CopyForm(self.db.dialect.qualified)

    @cached_property
    def queries(self) -> PostgresQueries:
        return PostgresQueries(self.db, Queries(self.db, self.jobs))

    @cached_property
    def purges(self) -> Purges:
        return Purges(self.db, PostgresPurgeStatements)


class PostgresStore(SqlStore):
    """Jobs in a PostgreSQL database."""

    def __init__(self, db: Database) -> None:
        super().__init__(PostgresParts(db), Setup(db))
        self._db, self._arrow_connections = db, ArrowConnections()
        self._arrow = Arrow(db, self._arrow_connections.read)

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        return self._arrow.select_arrow(query)

    def select_text(self, query: Query) -> str | None:
        wanted = statement(self._db, query)
        return None if wanted is None else postgres_text(self._db, *wanted)

    def extension(self, port: type[Port]) -> Port | None:
        return as_port(self, port) if port is SelectText else super().extension(port)

    def close(self) -> None:
        super().close()
        self._arrow_connections.close()
