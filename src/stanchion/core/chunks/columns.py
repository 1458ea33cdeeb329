"""Items as typed columns, where Arrow returns the very same items.

Arrow drops fields that the first item lacks, and turns missing fields into nulls and mixed numbers into floats, all
without an error. So each column is checked, and items that would change have no columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from stanchion.core.chunks.arrow import pa, pc

_EXACT = frozenset({pa.int64(), pa.string(), pa.bool_(), pa.null()})
"""Types that Arrow infers only where each value is of the same Python type, or None."""

_FLOATS = frozenset({float, type(None)})

_DEPTH = 32
"""Levels of nested values that are tried as columns; Arrow's streams allow 64."""

REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""Errors of Arrow for values that have no common type, or none at all."""

_text = json.JSONEncoder(allow_nan=False, ensure_ascii=False, sort_keys=True).encode


def columns_of(items: Sequence[object]) -> pa.Table | None:
    """Return items as a table with a typed column for each field.

    Return None unless each item is an object with the same fields, at least one, and each column gives back its values.
    """
    objects = [item for item in items if type(item) is dict]
    if not objects or len(objects) != len(items):
        return None
    names = list(objects[0])
    # As many fields as the first item has, and each of its fields: the same fields.
    if not names or set(map(len, objects)) != {len(names)} or not all(isinstance(name, str) for name in names):
        return None
    columns = []
    for name in names:
        values = _values(objects, name)
        column = None if values is None else column_of(values)
        if column is None:
            return None
        columns.append(column)
    try:
        return pa.Table.from_arrays(columns, names)
    except ValueError:  # a name that is no UTF-8
        return None


def _values(objects: Sequence[Mapping[str, object]], name: str) -> list[object] | None:
    try:
        return [one[name] for one in objects]
    except KeyError:
        return None


def column_of(values: Sequence[object]) -> pa.Array | None:
    """Return values as a column that gives back the same JSON values; None if there is none."""
    try:
        column = pa.array(values)
    except REFUSED:
        return None
    kind = column.type
    if kind in _EXACT:
        return column
    if kind == pa.float64():
        exact = _FLOATS.issuperset(map(type, values)) and pc.all(pc.is_finite(column)).as_py()
    else:
        exact = pa.types.is_nested(kind) and _depth(kind) <= _DEPTH and _gives_back(column, values)
    return column if exact else None


def _gives_back(column: pa.Array, values: Sequence[object]) -> bool:
    """Return whether a column of nested values has the same JSON as the values, which differs for 1, 1.0 and true."""
    try:
        return _text(values) == _text(column.to_pylist())
    except (TypeError, ValueError, RecursionError):
        return False


def _depth(kind: pa.DataType) -> int:
    return 1 + max((_depth(kind.field(n).type) for n in range(kind.num_fields)), default=0)
