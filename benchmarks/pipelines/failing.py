"""The first station of the pipeline that is measured, where one item in a thousand fails twice before it succeeds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipelines.stations import KM
from stanchion import Retry
from stanchion.pipelines import Pipeline

if TYPE_CHECKING:
    import pandas as pd

ONE_IN, TIMES = 1000, 2
_RETRY = Retry.constant(0, jitter=0, max_attempts=TIMES + 1)


class Fails:
    """Which items are still to fail. A process has one, so only one process may work."""

    def __init__(self) -> None:
        self._tries = Counter[int]()

    def __contains__(self, number: int) -> bool:
        """Return whether an item fails if it is tried now."""
        return not number % ONE_IN and self._tries[number] < TIMES

    def tried(self, number: int) -> bool:
        """Return whether this attempt at an item fails."""
        failed = number in self
        self._tries[number] += failed
        return failed

    def any_of(self, items: pa.Table) -> list[int]:
        """Return the numbers of the items whose attempts fail now."""
        numbers = items["n"]
        rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, ONE_IN), ONE_IN))
        return [number for number in numbers.filter(pc.equal(rest, 0)).to_pylist() if self.tried(number)]


def of_items(etl: Pipeline) -> None:
    """An item function raises."""
    fails = Fails()

    @etl.station("raw", to="clean", retry=_RETRY)
    def raw(item: dict[str, Any]) -> dict[str, Any]:
        if fails.tried(item["n"]):
            raise ConnectionError("the service is down")
        return {**item, "km": item["miles"] * KM}


def in_a_column(etl: Pipeline) -> None:
    """A function of Arrow tables names the failed items in the column `error`."""
    fails = Fails()

    @etl.station("raw", to="clean", takes="arrow", retry=_RETRY)
    def raw(items: pa.Table) -> pa.Table:
        failed = pc.is_in(items["n"], pa.array(fails.any_of(items), pa.int64()))
        errors = pc.if_else(failed, "the service is down", pa.scalar(None, pa.string()))
        return items.append_column("km", pc.multiply(items["miles"], KM)).append_column("error", errors)


def of_arrow(etl: Pipeline) -> None:
    """A function of Arrow tables raises."""
    fails = Fails()

    @etl.station("raw", to="clean", takes="arrow", retry=_RETRY)
    def raw(items: pa.Table) -> pa.Table:
        _raise(fails, items["n"].to_pylist())
        return items.append_column("km", pc.multiply(items["miles"], KM))


def of_pandas(etl: Pipeline) -> None:
    """A function of DataFrames raises."""
    fails = Fails()

    @etl.station("raw", to="clean", takes="pandas", retry=_RETRY)
    def raw(items: pd.DataFrame) -> pd.DataFrame:
        _raise(fails, items["n"].tolist())
        return items.assign(km=items["miles"] * KM)


def _raise(fails: Fails, numbers: list[int]) -> None:
    """Raise if an item is to fail; a call for several items is no attempt, as the failing ones are tried alone then."""
    if any(number in fails for number in numbers):
        if len(numbers) == 1:
            fails.tried(*numbers)
        raise ConnectionError("the service is down")
