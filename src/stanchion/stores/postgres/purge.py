"""PostgreSQL's statement of the purge."""

from __future__ import annotations

from sqlalchemy import text

from stanchion.stores.postgres.pick import NOW
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.queues.purge import PurgeStatements

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
