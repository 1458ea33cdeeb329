"""Batch functions: they take the items of a chunk as a table, and return tables.

The column `item` is the place of each item in the chunk. Returned rows with this column, or as many rows in the same
order, are the same items; other rows are new items. A text in the column `error` fails an item, which is retried
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from stanchion.core.chunks.arrow import counting, distinct, pa, pc
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.ends import END, Takes
from stanchion.pipelines.send import Send

if TYPE_CHECKING:
    import pandas as pd

ITEM, ERROR = "item", "error"
CALLS_MOST: Final = 500
"""Calls that search for the items which a batch function fails for."""


class ItemFailed(Exception):
    """An item failed: a batch function said so in the column `error`."""


class Returned(NamedTuple):
    """A table that a batch function returned: its items, their places (None: new items), and the failed ones."""

    items: Chunk | None
    places: pa.Array | None
    failed: Sequence[tuple[int, str]]


def table_for(takes: Takes, items: Chunk) -> object:
    """Return the items as the table that a function takes. Raises InvalidInput if they have no columns."""
    table = items.table()
    if ITEM in table.schema.names:
        raise InvalidInput(
            f"the items have a field {ITEM!r}, which a batch function gets as the place of each; rename it"
        )
    numbered = table.append_column(ITEM, counting(0, len(items)))
    if takes == "arrow":
        return numbered
    library = library_for(takes)
    return _frame(library, numbered) if takes == "pandas" else library.from_arrow(numbered)


def _frame(pandas: ModuleType, table: pa.Table) -> object:
    """Return a DataFrame of Arrow's types, as `to_pandas` makes it in four times the time."""
    columns = zip(table.schema.names, table.columns, strict=True)
    return pandas.DataFrame({name: pandas.arrays.ArrowExtensionArray(column) for name, column in columns}, copy=False)


def library_for(takes: Takes) -> ModuleType:
    """Return the library of the tables that a function takes. Raises InvalidInput if it is not installed here."""
    name = "pyarrow" if takes == "arrow" else takes
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(f"{name} is not installed where the station runs: pip install {name}") from None


def returned(found: object, items: Chunk, *, merges: bool) -> Returned:
    """Return the parts of a table that a function has returned. `merges`: its columns are added to the items."""
    table = _arrow(found)
    places = _places(table, len(items))
    failed: list[tuple[int, str]] = []
    if ERROR in table.schema.names:
        column = table.column(ERROR)
        table = table.drop_columns([ERROR])
        if column.null_count < len(column):
            if places is None:
                raise InvalidInput(
                    f"a table with a column {ERROR!r} must have the column {ITEM!r}, or as many rows as it got"
                )
            failing = pc.is_valid(column).combine_chunks()
            errors = column.filter(failing).to_pylist()
            failed = list(zip(places.filter(failing).to_pylist(), map(str, errors), strict=True))
            done = pc.invert(failing)
            places, table = places.filter(done), table.filter(done)
    if ITEM in table.schema.names:
        table = table.drop_columns([ITEM])
    if merges:
        if places is None:
            raise InvalidInput(f"what a station merges into its items must have the column {ITEM!r}, or a row for each")
        table = _merged(items.take(places).table(), table)
    if not table.num_rows:
        return Returned(None, places, failed)
    made = Chunk.of_table(table)
    if places is None:
        return Returned(made, None, failed)
    return Returned(made.named(items.root, items.content().positions_at(places)), places, failed)


def ended_in(tables: Sequence[Returned], size: int) -> int:
    """Return how many of `size` items have ended in these tables: the others are dropped."""
    places = [table.places for table in tables if table.places is not None]
    if len(places) < len(tables):  # new items, made of them all
        return size
    if len(places) == 1 and places[0].equals(counting(0, size)):
        return size
    places += [pa.array([place for place, _ in table.failed], pa.int32()) for table in tables if table.failed]
    return distinct(pa.concat_arrays(places), size) if places else 0


def sends_in(value: object, sends: Sequence[Send] | None) -> Sequence[Send]:
    """Return the targets of returned tables. `sends`: as the station reads them, None at an end station."""
    if sends is not None:
        return sends
    return [] if value is None else [Send(END, value)]


def of_one(
    function: Callable[..., object], takes: Takes, sends_of: Callable[[object], list[Send] | None]
) -> Callable[[object], object]:
    """Return a batch function as one of a single item: it gets a table of one row."""

    def one(item: object) -> object:
        some = Chunk.of([item])
        value = function(table_for(takes, some))
        sends = sends_of(value)
        found = [(send, returned(send.item, some, merges=False)) for send in sends_in(value, sends)]
        for _, table in found:
            for _, error in table.failed:
                raise ItemFailed(error)
        items = [(send, new) for send, table in found for new in (() if table.items is None else table.items)]
        if sends is None:
            return items[0][1] if items else None
        return [Send(send.to, new, send.delay, send.priority) for send, new in items]

    return one


def halved(call: Callable[[Chunk, int], None], fail: Callable[[int, int, Exception], None], items: Chunk) -> None:
    """Call a function for all items; where it raises, for halves of them, until the failing items are alone.

    `call`: gets items and the place of the first. `fail`: gets the first and the last place, and the error.
    """
    calls, todo = 0, [(0, len(items))]
    while todo:
        first, stop = todo.pop()
        calls += 1
        try:
            call(items[first:stop], first)
        except Exception as error:  # a function may raise anything
            if stop - first == 1 or calls + len(todo) >= CALLS_MOST:
                fail(first, stop, error)
            else:
                half = (first + stop) // 2
                todo += [(half, stop), (first, half)]


def _arrow(found: object) -> pa.Table:
    if isinstance(found, pa.RecordBatch):
        return pa.Table.from_batches([found])
    if isinstance(found, pa.Table):
        return found
    if hasattr(found, "to_numpy") and type(found).__module__.startswith("pandas"):
        return _table_of(found)
    if hasattr(found, "to_arrow") and type(found).__module__.startswith("polars"):
        oldest = import_module("polars").CompatLevel.oldest()  # Arrow can't filter views, its newest texts
        table: pa.Table = found.to_arrow(compat_level=oldest)
        return table
    try:
        return pa.table(found)
    except (pa.ArrowException, TypeError, ValueError):
        raise InvalidInput(
            f"a batch function must return a table of pyarrow, pandas or polars, or Sends of such, not "
            f"{type(found).__name__}"
        ) from None


def _table_of(frame: pd.DataFrame) -> pa.Table:
    """Return the table that `from_pandas` makes; where names and values allow it, in a fifth of the time."""
    names = list(frame.columns)
    if len({*names}) == len(names) and all(isinstance(name, str) for name in names):
        try:
            return pa.table({name: pa.array(column, from_pandas=True) for name, column in frame.items()})
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # the error of `from_pandas` names the column
    return pa.Table.from_pandas(frame, preserve_index=False)


def _places(table: pa.Table, size: int) -> pa.Array | None:
    if ITEM not in table.schema.names:
        return counting(0, size) if table.num_rows == size else None
    try:
        places = table.column(ITEM).combine_chunks()
        if len(places) == size and places.equals(counting(0, size)):
            return places  # as it was given
        places = places.cast(pa.int32())
    except pa.ArrowException:  # no integers
        places = pa.nulls(1, pa.int32())
    found = pc.min_max(places).as_py()
    if places.null_count or (len(places) and not 0 <= found["min"] <= found["max"] < size):
        raise InvalidInput(f"the column {ITEM!r} of a returned table must have places that the function got, from 0")
    return places


def _merged(table: pa.Table, changes: pa.Table) -> pa.Table:
    for name in changes.schema.names:
        column = changes.column(name)
        place = table.schema.get_field_index(name)
        table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
    return table
