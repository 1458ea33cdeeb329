"""The rows of member ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import text

from stanchion.stores.records.flows import MemberEnd
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner

_DROP = text("DELETE FROM stanchion_flow_ends WHERE node = :node AND member_index = :index")
_OF_NODE = text("""
    SELECT CAST(node AS CHAR(36)), member_index, state, CAST(job AS CHAR(36)), CAST(child AS CHAR(36)), result
    FROM stanchion_flow_ends WHERE node = :node AND member_index > :after ORDER BY member_index LIMIT :most
""")
_FORGET = text("DELETE FROM stanchion_flow_ends WHERE node = :node AND member_index >= :first AND member_index < :last")
_FORGOTTEN_AT_ONCE = 5000


class FlowEndStatements:
    """The statements about member ends, for one dialect; `added` gives the parameters of `add`."""

    def __init__(self, dialect: Dialect) -> None:
        # A planner may run a join by reading the whole table.
        self.known = text(f"""
            SELECT CAST(given.node AS CHAR(36)), given.member_index, (
                SELECT state FROM stanchion_flow_ends {dialect.by("PRIMARY")}
                WHERE node = given.node AND member_index = given.member_index
            )
            FROM {dialect.positions("positions")}
        """)
        self.add = text("""
            INSERT INTO stanchion_flow_ends (node, member_index, job, child, state, result)
            VALUES (:node, :index, :job, :child, :state, :result)
        """)

    def added(self, ends: Sequence[MemberEnd]) -> list[Params]:
        """Return the sets of parameters for `add`."""
        return [end._asdict() for end in ends]


class FlowEnds:
    """Reads and writes member ends."""

    def __init__(self, db: Database, statements: type[FlowEndStatements] = FlowEndStatements) -> None:
        self._db = db
        self._statements = db.dialect.once(statements)

    def known(self, run: Runner, ends: Iterable[MemberEnd]) -> dict[tuple[str, int], MemberEnd]:
        """Return the stored ends of these members, with their states only."""
        positions = json.dumps([(end.node, end.index) for end in ends])
        rows = run.rows(self._statements.known, {"positions": positions})
        return {(node, index): MemberEnd(node, index, state) for node, index, state in rows if state is not None}

    def add(self, run: Runner, ends: Sequence[MemberEnd]) -> None:
        """Write new ends."""
        run.change_each(self._statements.add, self._statements.added(ends) if ends else [])

    def drop(self, run: Runner, positions: Iterable[tuple[str, int]]) -> None:
        """Delete ends, by node and index."""
        run.change_each(_DROP, [{"node": node, "index": index} for node, index in positions])

    def of_node(self, node: str, after: int, limit: int) -> list[MemberEnd]:
        """Return the ends of a node's members after an index, in order."""
        wanted = {"node": node, "after": after, "most": limit}
        return [MemberEnd(*row) for row in self._db.read(lambda run: run.rows(_OF_NODE, wanted))]

    def forget(self, node: str, size: int) -> None:
        """Delete all ends of a node with `size` members, in rounds."""
        for first in range(0, size, _FORGOTTEN_AT_ONCE):
            self._forget_some({"node": node, "first": first, "last": first + _FORGOTTEN_AT_ONCE})

    def _forget_some(self, which: Params) -> None:
        self._db.write(lambda run, _again: run.change(_FORGET, which))
