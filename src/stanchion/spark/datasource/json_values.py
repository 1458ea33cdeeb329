"""Spark's values as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_PLAIN = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "void"})
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})

Convert = Callable[[Any], object]


def jsonable(kind: DataType, path: str) -> None:
    """Refuse a column that JSON can't represent. InvalidInput names the offending part by its path."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        for field in kind.fields:
            jsonable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        jsonable(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        if kind.keyType.simpleString() != "string":
            raise InvalidInput(f"the keys of {path} are of type {kind.keyType.simpleString()}; JSON has strings only")
        jsonable(kind.valueType, f"{path}[]")
    elif (name := kind.simpleString()).startswith("decimal"):
        raise InvalidInput(
            f"the column {path} is of type {name}, which has more digits than a number here; pass JSON made by "
            f"to_json() to keep them all, or cast it to string or double"
        )
    elif name not in _PLAIN and name not in _MOMENTS:
        raise InvalidInput(f"the column {path} is of type {name}, which JSON can't hold; cast it to string or double")


def plain_values(column: pa.Array) -> list[object]:
    """Return the values of a column for JSON: maps and structs as objects, times as ISO text."""
    convert = _converter(column.type)
    values: list[object] = column.to_pylist()
    return values if convert is None else [None if one is None else convert(one) for one in values]


def _converter(kind: pa.DataType) -> Convert | None:
    """Return the function that converts values of this type for JSON; None if they need no conversion."""
    if pa.types.is_map(kind):
        return _of_map(_converter(kind.item_type))
    if pa.types.is_struct(kind):
        return _of_struct({field.name: _converter(field.type) for field in kind})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_list(_converter(kind.value_type))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return lambda moment: moment.isoformat()
    return None


def _of_map(convert: Convert | None) -> Convert:
    return lambda pairs: {key: value if convert is None or value is None else convert(value) for key, value in pairs}


def _of_struct(converters: dict[str, Convert | None]) -> Convert | None:
    needed = {name: convert for name, convert in converters.items() if convert is not None}
    if not needed:
        return None

    def converted(fields: Mapping[str, object]) -> dict[str, object]:
        ours = {name: needed[name](value) for name, value in fields.items() if name in needed and value is not None}
        return {**fields, **ours}

    return converted


def _of_list(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if one is None else convert(one) for one in values]
