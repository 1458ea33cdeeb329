"""The statements about gates, each built once."""

from __future__ import annotations

from sqlalchemy import text

from stanchion.stores.rules.slots import HOLDER_BOOST
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS

ASKING = ("queue", "state", "priority", "run_at", "order_key", "limits", "flow", "held", "permit", "waits_since")
"""What is read of a job, beside its id, that asks at gates."""


class GateStatements:
    """Every statement about gates and those who wait at them, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.among("id", "ids", "uuid")
        key = dialect.by("PRIMARY")
        an_id = "CAST(id AS CHAR(36))"
        # -- the jobs
        self.asking = text(f"""
            SELECT {an_id}, {", ".join(ASKING)}
            FROM stanchion_jobs {key} WHERE {ids}
        """)
        own_priority = f"CASE WHEN priority > {HOLDER_BOOST // 2} THEN priority - {HOLDER_BOOST} ELSE priority END"
        self.reserve = text(f"""
            UPDATE stanchion_jobs {key}
            SET state = 'running', attempts = attempts + 1, token = :token, worker = :worker, progress = NULL,
                lease_until = :lease_until, started_at = :started_at, held = :held, priority = {own_priority},
                permit = CASE WHEN :gated = 1 THEN coalesce(permit, :token) ELSE permit END
            WHERE {ids} {dialect.returning(LIVE_COLUMNS)}
        """)
        self.park = text(f"""
            UPDATE stanchion_jobs {key}
            SET state = 'waiting', priority = :priority, held = :held, permit = :permit, waits_for = :waits_for,
                waits_since = :waits_since
            WHERE {ids}
        """)
        self.postpone = text("""
            UPDATE stanchion_jobs SET run_at = :run_at, priority = :priority, held = :held, permit = :permit,
                waits_since = :waits_since
            WHERE id = :id
        """)
