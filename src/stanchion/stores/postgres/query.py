"""PostgreSQL's own way to cut large tables into parts: by a sample of their blocks, in place of a look at every row."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, String, cast, select, text

from stanchion.stores.postgres.staging import PostgresBatches
from stanchion.stores.records.query import Scan
from stanchion.stores.rules.query import cut
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.scanning import SCAN_SECONDS, Shape, met, shape_of, table_of

BLOCKS = 400
"""About as many blocks are looked at."""

ENOUGH = 100
"""Sampled jobs of a part, below which all jobs are looked at."""


class PostgresParts(PostgresBatches):
    """The PostgreSQL store, whose scans are cut into parts of about equal size where there is much to scan."""

    def split(self, scan: Scan, parts: int) -> list[Scan]:
        ids = self._sampled(scan) if parts > 1 else []
        if len(ids) < parts * ENOUGH:
            return super().split(scan, parts)
        return cut(scan, (ids[len(ids) * n // parts] for n in range(parts)))

    def _sampled(self, scan: Scan) -> list[str]:
        """Return the ids, in order, of some jobs that meet the conditions; none where the table is small."""
        size = text("SELECT pg_relation_size(:name) / current_setting('block_size')::int")
        blocks = int(self.database.read(lambda run: run.rows(size, {"name": table_of(scan.of).name}))[0][0])
        if blocks < 2 * BLOCKS:
            return []
        given = {**self.given_to(scan), "percent": 100 * BLOCKS / blocks}
        sample = _sample(self.dialect, scan.of, shape_of(scan))
        return [one for (one,) in self.database.read(lambda run: run.rows(sample, given), SCAN_SECONDS)]


@cache
def _sample(dialect: Dialect, of: str, shape: Shape) -> Select[Any]:
    table = table_of(of)
    some = text(f"SELECT id FROM {table.name} TABLESAMPLE SYSTEM (:percent)").columns(table.c.id)
    return (
        select(cast(table.c.id, String(36))).where(met(dialect, of, shape), table.c.id.in_(some)).order_by(table.c.id)
    )
