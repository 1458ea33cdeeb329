"""PostgreSQL's split of large tables into parts: by a sample of their blocks, instead of a read of all rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, String, cast, select, text, union_all

from stanchion.stores.records.query import Query
from stanchion.stores.rules.query import checked, cut, evenly
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.reading import selection
from stanchion.stores.sql.reading.query import SCAN_SECONDS, Queries

BLOCKS = 400
"""Number of blocks in a sample, approximately."""

ENOUGH = 100
"""Sampled jobs per part; with fewer, all jobs are read."""


class PostgresQueries:
    """Reads jobs as on other databases, but splits queries over large tables at the ids of a sample."""

    def __init__(self, database: Database, general: Queries) -> None:
        self._database, self._general = database, general
        self.fetch, self.select = general.fetch, general.select

    def partition(self, query: Query, parts: int) -> list[Query]:
        ids = self._sampled(query) if parts > 1 else []
        if len(ids) < parts * ENOUGH:
            return self._general.partition(query, parts)
        return cut(query, evenly(ids, parts))

    def _sampled(self, query: Query) -> list[str]:
        """Return the sorted ids of some jobs that match the query; none if the tables are small."""
        shape = selection.shape_of(checked(query))
        blocks = sum(self._blocks(table.name) for table in shape.tables)
        if blocks < 2 * BLOCKS:
            return []
        given = {**selection.params_of(self._database.dialect, query), "percent": 100 * BLOCKS / blocks}
        statement = _sampled(self._database.dialect, shape)
        return [one for (one,) in self._database.read(lambda run: run.rows(statement, given), SCAN_SECONDS)]

    def _blocks(self, table: str) -> int:
        size = text("SELECT pg_relation_size(:name) / current_setting('block_size')::int")
        return int(self._database.read(lambda run: run.rows(size, {"name": table}))[0][0])


@cache
def _sampled(dialect: Dialect, shape: selection.Shape) -> Select[Any]:
    arms = []
    for table in shape.tables:
        some = text(f"SELECT id FROM {table.name} TABLESAMPLE SYSTEM (:percent)").columns(table.c.id)
        arms.append(select(table.c.id).where(selection.met(dialect, shape, table), table.c.id.in_(some)))
    found = union_all(*arms).subquery("found")
    return select(cast(found.c.id, String(36))).order_by(found.c.id)
