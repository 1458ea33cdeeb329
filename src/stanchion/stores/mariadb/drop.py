"""Dropping the live jobs of a queue on MariaDB and MySQL."""

from __future__ import annotations

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.sql.engine.runner import Row, Runner

_AT_ONCE = 1000


class MariaDBLiveDrop:
    """Deletes live jobs by their ids.

    A row found by an index entry is locked twice, in another order than by the transaction that ends the job.
    """

    def drop(self, run: Runner, queue: str) -> tuple[int, list[Row]]:
        ids = [one for (one,) in run.rows(sql.OF_QUEUE, {"queue": queue})]
        live, tied = 0, []
        for start in range(0, len(ids), _AT_ONCE):
            some = {"ids": ids[start : start + _AT_ONCE], "queues": [queue]}
            tied += [row for row in run.rows(sql.HELD_OF_THESE, some) if any(row[2:5])]
            live += run.change(sql.REMOVE, some)
        return live, tied
