"""PostgreSQL's own way to cut large tables into parts: by a sample of their blocks, in place of a look at every row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, String, cast, select, text, union_all

from stanchion.stores.postgres.staging import PostgresBatches
from stanchion.stores.records.query import Query
from stanchion.stores.rules.query import checked, cut, evenly
from stanchion.stores.sql import selection
from stanchion.stores.sql.arrow import Arrow, from_postgres
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.query import SCAN_SECONDS, Queries

if TYPE_CHECKING:
    import pyarrow as pa

BLOCKS = 400
"""About as many blocks are looked at."""

ENOUGH = 100
"""Sampled jobs of a part, below which all jobs are looked at."""


class PostgresParts(PostgresBatches):
    """The PostgreSQL store, whose scans are cut into parts of about equal size where there is much to scan."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._parts = SampledParts(database, general=self._queries)
        self._arrow = Arrow(database, from_postgres)

    def partition(self, query: Query, parts: int) -> list[Query]:
        return self._parts.partition(query, parts)

    def select_arrow(self, query: Query) -> Iterator[pa.RecordBatch]:
        return self._arrow.select_arrow(query)


class SampledParts:
    """Cuts queries over large tables at the ids of a sample; what is small, as other databases do."""

    def __init__(self, database: Database, general: Queries) -> None:
        self._database, self._general = database, general

    def partition(self, query: Query, parts: int) -> list[Query]:
        ids = self._sampled(query) if parts > 1 else []
        if len(ids) < parts * ENOUGH:
            return self._general.partition(query, parts)
        return cut(query, evenly(ids, parts))

    def _sampled(self, query: Query) -> list[str]:
        """Return the ids, in order, of some jobs that meet the conditions; none where the tables are small."""
        shape = selection.shape_of(checked(query))
        blocks = sum(self._blocks(table.name) for table in shape.tables)
        if blocks < 2 * BLOCKS:
            return []
        given = {**selection.params_of(query), "percent": 100 * BLOCKS / blocks}
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
