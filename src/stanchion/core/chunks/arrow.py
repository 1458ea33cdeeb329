"""PyArrow, or the error that says how to install it. Only modules that always need it import this."""

from __future__ import annotations

from stanchion.errors import MissingExtra

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as missing:
    raise MissingExtra("chunks", "a job of many items") from missing

__all__ = ["pa", "pc"]
