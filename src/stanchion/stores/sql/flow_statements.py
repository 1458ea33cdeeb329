"""The statements about flows, each built once."""

from __future__ import annotations

from sqlalchemy import text

from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import nodes

_TEXT_IDS = {"id", "root"}


class FlowStatements:
    """Every statement about nodes, their ends, and those who wait for them, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        ids, gates = dialect.among("id", "ids", "uuid"), dialect.among("waits_for", "gates")
        waiting = f"{gates} AND waits_for IS NOT NULL"
        gate, key = dialect.by("stanchion_jobs_gate"), dialect.by("PRIMARY")
        columns = ", ".join(
            f"CAST({column.name} AS CHAR(36))" if column.name in _TEXT_IDS else column.name for column in nodes.columns
        )

        # -- nodes
        self.insert = dialect.insert_ignoring(
            nodes, {column.name: param(f"new_{column.name}", column.type) for column in nodes.columns}
        )
        self.lock = text(f"""
            SELECT {columns} FROM stanchion_nodes {key} WHERE {ids} ORDER BY stanchion_nodes.id {dialect.locking}
        """)
        self.of_root = text(f"SELECT {columns} FROM stanchion_nodes WHERE root = :root ORDER BY stanchion_nodes.id")
        self.count = text(f"""
            UPDATE stanchion_nodes {key} SET ended = ended + :more, state = :state, finished_at = :finished_at
            WHERE {ids}
        """)
        self.grow = text("UPDATE stanchion_nodes SET size = size + :more WHERE id = :id")
        self.close = text("UPDATE stanchion_nodes SET closed = :closed WHERE id = :id")
        self.old = text("""
            SELECT CAST(id AS CHAR(36)) FROM stanchion_nodes WHERE finished_at <= :oldest AND id = root
            ORDER BY finished_at LIMIT :most
        """)
        self.forget_nodes = text("DELETE FROM stanchion_nodes WHERE root = :root")

        # -- ends
        self.known = text(f"""
            SELECT CAST(given.node AS CHAR(36)), given.place, (
                SELECT state FROM stanchion_ends {key} WHERE node = given.node AND place = given.place
            )
            FROM {dialect.places("places")}
        """)  # not as a join, for which a planner may read the whole table
        self.add_end = text("""
            INSERT INTO stanchion_ends (node, place, job, child, state, result)
            VALUES (:node, :place, :job, :child, :state, :result)
        """)
        self.drop_end = text("DELETE FROM stanchion_ends WHERE node = :node AND place = :place")
        self.ends = text("""
            SELECT CAST(node AS CHAR(36)), place, state, CAST(job AS CHAR(36)), CAST(child AS CHAR(36)), result
            FROM stanchion_ends WHERE node = :node AND place > :after ORDER BY place LIMIT :most
        """)
        self.forget_ends = text("DELETE FROM stanchion_ends WHERE node = :node AND place >= :first AND place < :last")

        # -- who waits for nodes
        self.wakes = text(f"SELECT DISTINCT queue FROM stanchion_jobs {gate} WHERE {waiting}")
        self.let_in = text(f"""
            UPDATE stanchion_jobs {gate}
            SET state = 'queued', run_at = CASE WHEN run_at < :now THEN :now ELSE run_at END,
                waits_for = NULL, waits_since = NULL
            WHERE {waiting}
        """)
        self.waiting = text(f"""
            SELECT CAST(id AS CHAR(36)) FROM stanchion_jobs {gate} WHERE {waiting} LIMIT :most {dialect.locking}
        """)
