"""Whether a value is a table. No library of tables is imported: who has a table has imported its library."""

from __future__ import annotations

import sys


def is_pandas(value: object) -> bool:
    """Return whether this is a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def is_table(value: object) -> bool:
    """Return whether this is a table of pyarrow, pandas, polars, or another library that speaks Arrow's C interface."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or is_pandas(value)
