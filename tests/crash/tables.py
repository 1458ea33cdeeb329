"""A pipeline whose last station writes to a table, and the deaths of its workers: at calls, and amid a write.

raw ──► days ──► table days
           └────► some fail at the first attempt, some are no rows
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from stanchion import Job, Retry, Stanchion, Table
from stanchion.context import steadiness
from stanchion.stores.ports import ResultTables
from stanchion.stores.records.outcomes import TableRows
from stanchion.stores.registry import open_store
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.tables.write import TableWrites
from tests.crash.doom import doomed

steadiness.RETURN = 3.0

FAILING, MISFIT = 11, 13


def pipeline(app: Stanchion) -> Any:
    """Declare the pipeline on an app."""
    etl = app.pipeline("crash")

    @etl.station("raw", to="days")
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.0005)
        return {**item, "raw": True}

    @etl.station("days", to=Table("days", schema="n bigint not null, told string"), retry=Retry.constant(0.2, jitter=0))
    def days(item: dict[str, Any], job: Job) -> dict[str, Any]:
        if item["n"] % FAILING == 0 and job.attempt == 1:
            raise ValueError("at the first attempt")
        return {"n": None if item["n"] % MISFIT == 0 else item["n"], "told": f"day {item['n']}"}

    return etl


def fits(number: int) -> bool:
    """Return whether an item becomes a row."""
    return number % MISFIT != 0


def written(etl: Any, app: Stanchion) -> Counter[int]:
    """Return how often each item is in the table."""
    from stanchion.pipelines.pipeline import plan_of

    table = plan_of(etl).station("days").tables["days"].result
    found = app.store.extension(ResultTables)
    assert found is not None
    return Counter(int(str(row[2])) for some in found.table_rows(table) for row in some)


def die_in_a_write(moment: str, number: int) -> None:
    """Kill this process around its n-th write to a table, within the transaction."""
    write, left = TableWrites.write, iter(range(number - 1))

    def fatal(self: TableWrites, run: Runner, rows: Sequence[TableRows]) -> None:
        last = next(left, None) is None
        if last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, run, rows)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    TableWrites.write = fatal  # type: ignore[method-assign]


if "CRASH_FATE" in os.environ:
    url, fate = os.environ["STANCHION_URL"], os.environ["CRASH_FATE"]
    if " rows " in fate:
        moment, _, number = fate.split()
        die_in_a_write(moment, int(number))
        fate = ""
    etl = pipeline(Stanchion(url, store=doomed(open_store(url), fate)))
