"""PostgreSQL's insert of member ends: any number by one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import text

from stanchion.stores.records.flows import MemberEnd
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Params
from stanchion.stores.sql.jobs.flow_ends import FlowEndStatements

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
        return [{"ends": json.dumps([end._asdict() for end in ends])}]
