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
        return [number for number in _multiples(items["n"]) if self.tried(number)]


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
        _raise(fails, _multiples(items["n"]), len(items))
        return items.append_column("km", pc.multiply(items["miles"], KM))


def of_pandas(etl: Pipeline) -> None:
    """A function of DataFrames raises."""
    fails = Fails()

    @etl.station("raw", to="clean", takes="pandas", retry=_RETRY)
    def raw(items: pd.DataFrame) -> pd.DataFrame:
        numbers = items["n"].to_numpy()  # Arrow's types of pandas have no remainder either
        _raise(fails, numbers[numbers % ONE_IN == 0].tolist(), len(items))
        return items.assign(km=items["miles"] * KM)


def _multiples(numbers: pa.ChunkedArray) -> list[int]:
    """Return the multiples of ONE_IN; Arrow has no remainder."""
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, ONE_IN), ONE_IN))
    found: list[int] = numbers.filter(pc.equal(rest, 0)).to_pylist()
    return found


def _raise(fails: Fails, multiples: list[int], size: int) -> None:
    """Raise if one of `size` items is to fail; only a call for one item is an attempt at it."""
    if any(number in fails for number in multiples):
        if size == 1:
            fails.tried(*multiples)
        raise ConnectionError("the service is down")
