"""The statements about gates, each built once."""

from __future__ import annotations

from sqlalchemy import text

from stanchion.stores.rules.slots import HOLDER_BOOST
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS

ASKING = ("queue", "state", "priority", "run_at", "order_key", "limits", "flow", "held", "permit", "waits_since")
"""What is read of a job, beside its id, that asks at gates."""


GATE = "name, capacity, used, waited, tokens, filled_at, promised, promised_again"
"""What is read of a gate."""


class GateStatements:
    """Every statement about gates and those who wait at them, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        names, ids = dialect.among("name", "names"), dialect.among("id", "ids", "uuid")
        gate, order, key = map(dialect.by, ("stanchion_jobs_gate", "stanchion_jobs_order", "PRIMARY"))
        an_id = "CAST(id AS CHAR(36))"
        # The columns to order by are named in full: a bare id would be the text that is selected, which has no index.
        first_of_key = f"""
            FROM stanchion_jobs {order} WHERE queue = :queue AND order_key = given.value
            ORDER BY stanchion_jobs.enqueued_at, stanchion_jobs.id LIMIT 1
        """

        # -- the gates themselves
        self.lock, self.look = (
            text(f"""
                SELECT {GATE} FROM stanchion_gates {key} WHERE {names} ORDER BY name {locking}
            """)
            for locking in (dialect.locking, "")
        )
        self.next_gates = text(f"""
            SELECT {GATE} FROM stanchion_gates {key} WHERE name > :after ORDER BY name LIMIT :most
        """)
        # In the order in which `lock` goes: two that make and lock the same ones never wait for each other in a circle.
        self.make = text(f"""
            INSERT INTO stanchion_gates (name, used)
            SELECT given.value, 0 FROM {dialect.elements("wanted")} WHERE 1 = 1 ORDER BY given.value {dialect.or_lock}
        """)
        self.use = text(f"UPDATE stanchion_gates {key} SET used = used + :more WHERE {names}")
        self.mark = text(f"UPDATE stanchion_gates {key} SET waited = :waited WHERE {names}")
        self.fill = text("""
            UPDATE stanchion_gates
            SET tokens = :tokens, filled_at = :filled_at, promised = :promised, promised_again = :promised_again
            WHERE name = :name
        """)
        self.resize = text("UPDATE stanchion_gates SET capacity = coalesce(:capacity, declared) WHERE name = :name")
        self.declare = text("UPDATE stanchion_gates SET declared = :capacity WHERE name = :name")
        self.declared = text("SELECT declared FROM stanchion_gates WHERE name = :name")
        self.drop = text(f"DELETE FROM stanchion_gates WHERE {names}")
        self.idle_rates = text(
            f"DELETE FROM stanchion_gates WHERE {dialect.begins('name', 'r:')} AND filled_at < :oldest"
        )
        self.semaphores = text(f"""
            SELECT name, capacity, used, (SELECT COUNT(*) FROM stanchion_jobs {gate} WHERE waits_for = name)
            FROM stanchion_gates WHERE {dialect.begins("name", "s:")} AND capacity IS NOT NULL
        """)

        # -- the lines
        self.in_line = text(f"""
            SELECT {an_id}, queue FROM stanchion_jobs {gate} WHERE waits_for = :gate
            ORDER BY stanchion_jobs.waits_since, stanchion_jobs.id LIMIT :most {dialect.locking_free}
        """)
        self.waited_at = text(f"""
            SELECT given.value FROM {dialect.elements("gates")} WHERE EXISTS (
                SELECT 1 FROM stanchion_jobs {gate} WHERE waits_for = given.value
            )
        """)
        self.turns, self.turns_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}) FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.turns_to_grant, self.turns_to_grant_now = (
            text(f"""
                SELECT given.value, (SELECT {an_id} {first_of_key} {reading}),
                    (SELECT waits_for {first_of_key} {reading})
                FROM {dialect.elements("keys")}
            """)
            for reading in ("", dialect.reading)
        )
        self.waiting_of = text(f"""
            SELECT {an_id}, queue, waits_for FROM stanchion_jobs {key} WHERE {ids} {dialect.locking_free}
        """)
        self.still_waiting = text(f"""
            SELECT {an_id}, waits_for FROM stanchion_jobs {key} WHERE {ids} AND waits_for IS NOT NULL
        """)
        self.next_waited = text(f"""
            SELECT waits_for FROM stanchion_jobs {gate} WHERE waits_for > :after ORDER BY waits_for LIMIT 1
        """)
        self.holders = text(f"""
            SELECT {an_id}, queue, order_key, limits, flow, held FROM stanchion_jobs {dialect.by("stanchion_jobs_held")}
            WHERE held > 0 LIMIT :most
        """)
        self.waiting = text(f"""
            SELECT {an_id} FROM stanchion_jobs {gate} WHERE waits_for = :gate
            ORDER BY stanchion_jobs.waits_since, stanchion_jobs.id
        """)
        self.holding = text(f"""
            SELECT {an_id}, queue, order_key, limits, flow, held FROM stanchion_jobs
            WHERE held > 0 AND limits LIKE :pattern ESCAPE '|'
        """)

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
        self.grant = text(f"""
            UPDATE stanchion_jobs {key}
            SET state = 'queued', held = held + 1, priority = priority + :boost, waits_for = NULL, waits_since = NULL
            WHERE {ids}
        """)
