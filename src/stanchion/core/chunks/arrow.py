"""PyArrow, or the error that says how to install it. Only modules that always need it import this."""

from __future__ import annotations

from functools import cache
from typing import Final

from stanchion.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as missing:
    raise MissingExtra("chunks", "a job of many items") from missing

__all__ = ["counting", "distinct", "pa", "pc"]


_KEPT: Final = 1 << 16
"""Integers that are counted once; chunks seldom have more items."""


def counting(start: int, stop: int) -> pa.Array:
    """Return the integers of 32 bits from `start` until before `stop`, far faster than `pa.array` of a range."""
    return _first_integers().slice(start, stop - start) if 0 <= start <= stop <= _KEPT else _counted(start, stop)


def distinct(places: pa.Array, size: int) -> int:
    """Return how many different places from 0 to `size` - 1 these are, far faster than `count_distinct`: it hashes."""
    return size - int(pc.inverse_permutation(places, max_index=size - 1).null_count)


@cache
def _first_integers() -> pa.Array:
    return _counted(0, _KEPT)


def _counted(start: int, stop: int) -> pa.Array:
    ones = pa.repeat(pa.scalar(1, pa.int32()), stop - start)
    return pc.cumulative_sum(ones, start=pa.scalar(start - 1, pa.int32()))
