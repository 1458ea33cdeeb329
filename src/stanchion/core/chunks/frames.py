"""Tables of pyarrow, pandas, polars and other libraries as tables of types that JSON has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from typing import TYPE_CHECKING, TypeAlias

from stanchion.core.chunks.arrow import pa, pc
from stanchion.core.chunks.columns import REFUSED, column_of
from stanchion.core.chunks.frame_types import is_pandas
from stanchion.core.chunks.plain_columns import check_names, plain_column, plain_values
from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

Frame: TypeAlias = "pa.Table | pd.DataFrame"
"""A table of pyarrow, pandas, polars, or another library that speaks Arrow's C interface."""

Rows: TypeAlias = "pa.Table | list[dict[str, object]]"
"""A table with a typed column for each field; rows as objects where a column has maps, or values of several types."""


def plain_rows(table: Frame) -> Rows:
    """Return the rows of a table with types that JSON has.

    NaN in a DataFrame of pandas becomes null, as pandas means it. Raises InvalidInput for a value that JSON can't hold.
    """
    if is_pandas(table):
        return _of_pandas(table)
    try:
        return _of_arrow(table if isinstance(table, pa.Table) else pa.table(table))
    except (pa.ArrowException, TypeError) as error:
        raise _no_table(table, error) from None


def pieces(table: Frame, size: int) -> Iterator[Rows]:
    """Yield the rows of a table, at most `size` at a time; of a stream, such as the result of a query, as they come."""
    if is_pandas(table):
        for start in range(0, len(table), size):
            yield _of_pandas(table.iloc[start : start + size])
    elif isinstance(table, pa.Table):
        for start in range(0, table.num_rows, size):
            yield _of_arrow(table.slice(start, size))
    else:
        yield from map(_of_arrow, _cut(_batches(table), size))


def _batches(table: Frame) -> Iterable[pa.RecordBatch]:
    """Return the batches of a table of another library."""
    try:
        if hasattr(table, "__arrow_c_stream__"):
            reader: Iterable[pa.RecordBatch] = pa.RecordBatchReader.from_stream(table)
            return reader
        return [pa.record_batch(table)]
    except (pa.ArrowException, TypeError) as error:
        raise _no_table(table, error) from None


def _cut(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yield the rows of batches in tables of `size` rows, and a last one with the rest."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= size:
            table = pa.Table.from_batches(waiting)
            rest = rows % size
            for start in range(0, rows - rest, size):
                yield table.slice(start, size)
            waiting, rows = table.slice(rows - rest).to_batches(), rest
    if rows:
        yield pa.Table.from_batches(waiting)


def _no_table(given: object, error: Exception) -> InvalidInput:
    return InvalidInput(f"this {type(given).__name__} is not a table of rows ({error}); pass a DataFrame or a table")


def _of_arrow(table: pa.Table) -> Rows:
    names = table.schema.names
    check_names(names)
    columns = map(plain_column, names, table.columns)
    return _together(dict(zip(names, columns, strict=True)), table.num_rows)


def _of_pandas(frame: pd.DataFrame) -> Rows:
    check_names(list(frame.columns))
    for name in frame.index.names:
        if name is not None:
            raise InvalidInput(
                f"the index {name!r} of the DataFrame would be lost; call reset_index() to keep it as a column, or "
                f"reset_index(drop=True)"
            )
    typed = [name for name, kind in frame.dtypes.items() if str(kind) != "object"]
    try:
        table = pa.Table.from_pandas(frame[typed], preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"the DataFrame can't be converted by Arrow ({error}); correct its types") from None
    columns = {
        name: plain_column(name, _with_nulls(table.column(name)))
        if name in table.schema.names
        else _objects(name, frame)
        for name in frame.columns
    }
    return _together(columns, len(frame))


def _with_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of pandas with null for NaN, which pandas leaves in columns of its Arrow types."""
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def _objects(name: str, frame: pd.DataFrame) -> pa.Array | list[object]:
    """Return a column of Python objects; as they are, if Arrow would change them: `[1, 2.5]`, or different fields."""
    missing, values = frame[name].isna(), frame[name].tolist()
    if missing.any():
        values = [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
    exact = column_of(values)
    if exact is not None:
        return exact
    try:
        found = pa.array(values)
    except REFUSED:
        found = None
    if found is not None and not pa.types.is_nested(found.type) and not pa.types.is_floating(found.type):
        return plain_column(name, found)
    plain = [*map(_plain, values)]
    exact = column_of(plain)
    return plain if exact is None else exact


def _plain(value: object) -> object:
    """Return an object of pandas as JSON has it: arrays of NumPy, which lists become there, as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, date | time):
        return None if value != value else value.isoformat()  # NaT is a datetime that differs from itself
    return value


def _together(columns: Mapping[str, pa.Array | list[object]], rows: int) -> Rows:
    if columns and not any(isinstance(column, list) for column in columns.values()):
        return pa.table(dict(columns))
    values = [column if isinstance(column, list) else plain_values(column) for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)] if values else [{}] * rows
