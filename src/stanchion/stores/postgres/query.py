"""PostgreSQL's split of large tables into parts: by a sample of their rows, instead of a read of all."""

from __future__ import annotations

from functools import cache

from sqlalchemy import ARRAY, Double, String, bindparam, cast, func, select, text, union_all

from stanchion.stores.records.query import Query
from stanchion.stores.rules.query import checked, cut
from stanchion.stores.sql.elements import AnySelect
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.reading import selection
from stanchion.stores.sql.reading.query import SCAN_SECONDS, Queries

BLOCKS = 400
"""Number of blocks with rows in a sample, approximately."""

ROWS = 10
"""Rows of a block in a sample, at most."""

ENOUGH = 100
"""Sampled jobs per part; with fewer, all jobs are read."""


_SAMPLE = """SELECT * FROM {0} WHERE ctid = ANY (ARRAY(
  SELECT CAST('(' || block || ',' || row || ')' AS tid)
  FROM (SELECT pg_relation_size('{0}') / CAST(current_setting('block_size') AS int) AS blocks) AS size,
    generate_series(0, blocks, greatest(blocks / :blocks, 1)) AS block,
    generate_series(1, :rows) AS row))"""
"""The first rows of blocks at equal distances. Jobs that came together are near each other: most parts are exact."""


class PostgresQueries:
    """Reads jobs as on other databases, but splits queries that many jobs meet at the ids of a sample."""

    def __init__(self, database: Database, general: Queries) -> None:
        self._database, self._general = database, general
        self.fetch, self.select = general.fetch, general.select

    def partition(self, query: Query, parts: int) -> list[Query]:
        count, firsts = self._sampled(query, parts) if parts > 1 else (0, [])
        if count < parts * ENOUGH:
            return self._general.partition(query, parts)
        return cut(query, firsts)

    def _sampled(self, query: Query, parts: int) -> tuple[int, list[str]]:
        """Return how many jobs of a sample match the query, and the first ids of equal parts of them."""
        shape = selection.shape_of(checked(query))
        if not shape.tables:
            return 0, []
        statement = _sampled(self._database.dialect, shape)
        given = {
            **selection.params_of(self._database.dialect, query),
            "blocks": BLOCKS,
            "rows": ROWS,
            "shares": [n / parts for n in range(parts)],
        }
        ((count, firsts),) = self._database.read(lambda run: run.rows(statement, given), SCAN_SECONDS)
        return count, firsts or []


@cache
def _sampled(dialect: Dialect, shape: selection.Shape) -> AnySelect:
    samples, arms = [], []
    for table in shape.tables:
        # Under the name of the table, the sample takes its place in all conditions.
        samples.append(text(_SAMPLE.format(dialect.qualified(table.name))).columns(*table.c).cte(table.name))
        arms.append(select(table.c.id).where(selection.met(dialect, shape, table)))
    found = union_all(*arms).subquery("found")
    first = func.percentile_disc(bindparam("shares", type_=ARRAY(Double))).within_group(found.c.id)
    return select(func.count(), cast(first, ARRAY(String(36)))).select_from(found).add_cte(*samples)
