"""A pipeline whose last station writes to a table in a folder, and the deaths of its workers at each step of a write.

raw ──► lake, a Delta table or Parquet files
 └────► some fail at the first attempt, some are no rows
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stanchion import Job, Retry, Stanchion, Table
from stanchion.context import steadiness
from stanchion.lake import parquet
from stanchion.lake.appends import DeltaAppends
from stanchion.lake.delta import DeltaTarget, OpenTable
from stanchion.lake.files import DeltaFiles
from stanchion.pipelines.plan import TableStation
from stanchion.stores.registry import open_store
from tests.crash.doom import doomed

steadiness.RETURN = 3.0

FAILING, MISFIT = 11, 13

STEPS: dict[str, tuple[object, str]] = {
    "open": (DeltaTarget, "open"),
    "files": (DeltaFiles, "close"),
    "commit": (OpenTable, "append"),
    "rows": (DeltaAppends, "append"),
    "sync": (parquet, "sync"),
    "file": (parquet.ParquetFolder, "append"),
    "item": (TableStation, "append"),
}
"""Where a worker can die, before or after."""


def pipeline(app: Stanchion, kind: str, folder: Path) -> Any:
    """Declare the pipeline on an app."""
    etl = app.pipeline("crash")
    lake = Table(f"{kind}://{folder.resolve()}/lake", schema="n bigint not null, told string")

    @etl.station("raw", to=lake, retry=Retry.constant(0.2, jitter=0))
    def raw(item: dict[str, Any], job: Job) -> dict[str, Any]:
        if item["n"] % FAILING == 0 and job.attempt == 1:
            raise ValueError("at the first attempt")
        return {"n": None if item["n"] % MISFIT == 0 else item["n"], "told": f"day {item['n']}"}

    return etl


def fits(number: int) -> bool:
    """Return whether an item becomes a row."""
    return number % MISFIT != 0


def written(etl: Any) -> Counter[int]:
    """Return how often each item is in the table."""
    return Counter(etl.results("raw", as_="arrow").column("n").to_pylist())


def die(moment: str, step: str, number: int) -> None:
    """Kill this process before or after its n-th call of a step."""
    owner, name = STEPS[step]
    call, left = getattr(owner, name), iter(range(number - 1))

    def fatal(*args: Any, **options: Any) -> object:
        last = next(left, None) is None
        if last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found: object = call(*args, **options)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    made: Callable[..., object] = fatal
    if name == "append" and owner is TableStation:

        def append(self: TableStation, item: object, job: Job) -> object:
            return fatal(self, item, job)

        made = append
    setattr(owner, name, made)


if "CRASH_FATE" in os.environ:
    url, fate = os.environ["STANCHION_URL"], os.environ["CRASH_FATE"]
    kind, _, fate = fate.partition(" ")
    moment, _, rest = fate.partition(" ")
    step, _, number = rest.partition(" ")
    if step in STEPS:
        die(moment, step, int(number))
        fate = ""
    etl = pipeline(Stanchion(url, store=doomed(open_store(url), fate)), kind, Path.cwd())
