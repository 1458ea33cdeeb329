"""PyArrow, or the error that says how to install it. Only modules that always need it import this."""

from __future__ import annotations

from stanchion.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as missing:
    raise MissingExtra("chunks", "a job of many items") from missing

__all__ = ["counting", "pa", "pc"]


def counting(start: int, stop: int) -> pa.Array:
    """Return the integers of 32 bits from `start` until before `stop`, far faster than `pa.array` of a range."""
    ones = pa.repeat(pa.scalar(1, pa.int32()), stop - start)
    return pc.cumulative_sum(ones, start=pa.scalar(start - 1, pa.int32()))
