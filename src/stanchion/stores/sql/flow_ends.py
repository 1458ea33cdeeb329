"""The rows that tell how the members of a node have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import text

from stanchion.stores.records.flows import MemberEnd
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params, Runner

_DROP = text("DELETE FROM stanchion_ends WHERE node = :node AND place = :place")
_OF_NODE = text("""
    SELECT CAST(node AS CHAR(36)), place, state, CAST(job AS CHAR(36)), CAST(child AS CHAR(36)), result
    FROM stanchion_ends WHERE node = :node AND place > :after ORDER BY place LIMIT :most
""")
_FORGET = text("DELETE FROM stanchion_ends WHERE node = :node AND place >= :first AND place < :last")
_FORGOTTEN_AT_ONCE = 5000


class FlowEndStatements:
    """The statements about ends, for one dialect; `add` takes the parameters that `added` gives."""

    def __init__(self, dialect: Dialect) -> None:
        # Not as a join, for which a planner may read the whole table.
        self.known = text(f"""
            SELECT CAST(given.node AS CHAR(36)), given.place, (
                SELECT state FROM stanchion_ends {dialect.by("PRIMARY")}
                WHERE node = given.node AND place = given.place
            )
            FROM {dialect.places("places")}
        """)
        self.add = text("""
            INSERT INTO stanchion_ends (node, place, job, child, state, result)
            VALUES (:node, :place, :job, :child, :state, :result)
        """)

    def added(self, ends: Sequence[MemberEnd]) -> list[Params]:
        """Return the sets of parameters with which `add` is run."""
        return [end._asdict() for end in ends]


class FlowEnds:
    """Reads and writes how members have ended."""

    def __init__(self, db: Database, statements: type[FlowEndStatements] = FlowEndStatements) -> None:
        self._db = db
        self._statements = db.dialect.once(statements)

    def known(self, run: Runner, ends: Iterable[MemberEnd]) -> dict[tuple[str, int], MemberEnd]:
        """Return how these members had ended before, as far as it matters here."""
        places = json.dumps([(end.node, end.place) for end in ends])
        rows = run.rows(self._statements.known, {"places": places})
        return {(node, place): MemberEnd(node, place, state) for node, place, state in rows if state is not None}

    def add(self, run: Runner, ends: Sequence[MemberEnd]) -> None:
        """Write ends that are new."""
        run.change_each(self._statements.add, self._statements.added(ends) if ends else [])

    def drop(self, run: Runner, places: Iterable[tuple[str, int]]) -> None:
        """Delete ends, by node and place."""
        run.change_each(_DROP, [{"node": node, "place": place} for node, place in places])

    def of_node(self, node: str, after: int, limit: int) -> list[MemberEnd]:
        """Return the ends of a node's members after a place, in their order."""
        wanted = {"node": node, "after": after, "most": limit}
        return [MemberEnd(*row) for row in self._db.read(lambda run: run.rows(_OF_NODE, wanted))]

    def forget(self, node: str, size: int) -> None:
        """Delete all ends of a node with so many members, in rounds."""
        for first in range(0, size, _FORGOTTEN_AT_ONCE):
            some = {"node": node, "first": first, "last": first + _FORGOTTEN_AT_ONCE}
            self._db.write(lambda run, _again, some=some: run.change(_FORGET, some))  # type: ignore[misc]
