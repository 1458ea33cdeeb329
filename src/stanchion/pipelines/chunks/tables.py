"""Batch functions: they take the items of a chunk as a table, and return tables.

The column `item` is the place of each item in the chunk. Returned rows with this column, or as many rows in the same
order, are the same items; other rows are new items. A text in the column `error` fails an item, which is retried
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from stanchion.core.chunks.arrow import pa, pc
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.ends import END, Takes
from stanchion.pipelines.send import Send

ITEM, ERROR = "item", "error"
CALLS_MOST: Final = 500
"""Calls that search for the items which a batch function fails for."""


class ItemFailed(Exception):
    """An item failed: a batch function said so in the column `error`."""


class Returned(NamedTuple):
    """A table that a batch function returned: its items, their places (None: new items), and the failed ones."""

    items: Chunk | None
    places: Sequence[int] | None
    failed: Sequence[tuple[int, str]]


def table_for(takes: Takes, items: Chunk) -> object:
    """Return the items as the table that a function takes. Raises InvalidInput if they have no columns."""
    table = items.table()
    if ITEM in table.schema.names:
        raise InvalidInput(
            f"the items have a field {ITEM!r}, which a batch function gets as the place of each; rename it"
        )
    numbered = table.append_column(ITEM, pa.array(range(len(items)), pa.int32()))
    if takes == "arrow":
        return numbered
    if takes == "pandas":
        import pandas as pd

        return numbered.to_pandas(types_mapper=pd.ArrowDtype)
    return import_module("polars").from_arrow(numbered)


def returned(found: object, items: Chunk, *, merges: bool) -> Returned:
    """Return the parts of a table that a function has returned. `merges`: its columns are added to the items."""
    table = _arrow(found)
    places = _places(table, len(items))
    failed: list[tuple[int, str]] = []
    if ERROR in table.schema.names:
        failing = pc.is_valid(table.column(ERROR))
        if places is None and pc.any(failing).as_py():
            raise InvalidInput(
                f"a table with a column {ERROR!r} must have the column {ITEM!r}, or as many rows as it got"
            )
        if places is not None:
            errors = table.column(ERROR).to_pylist()
            failed = [(place, str(error)) for place, error in zip(places, errors, strict=True) if error is not None]
            places = [place for place, error in zip(places, errors, strict=True) if error is None]
        table = table.filter(pc.invert(failing)).drop_columns([ERROR])
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
    kept = items.take(places)
    return Returned(made.named(kept.root, kept.positions), places, failed)


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
        return pa.Table.from_pandas(found, preserve_index=False)
    try:
        return pa.table(found)
    except (pa.ArrowException, TypeError, ValueError):
        raise InvalidInput(
            f"a batch function must return a table of pyarrow, pandas or polars, or Sends of such, not "
            f"{type(found).__name__}"
        ) from None


def _places(table: pa.Table, size: int) -> Sequence[int] | None:
    if ITEM not in table.schema.names:
        return range(size) if table.num_rows == size else None
    places: list[int | None] = table.column(ITEM).to_pylist()
    known = [place for place in places if place is not None and 0 <= place < size]
    if len(known) < len(places):
        raise InvalidInput(f"the column {ITEM!r} of a returned table must have places that the function got, from 0")
    return known


def _merged(table: pa.Table, changes: pa.Table) -> pa.Table:
    for name in changes.schema.names:
        column = changes.column(name)
        place = table.schema.get_field_index(name)
        table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
    return table
