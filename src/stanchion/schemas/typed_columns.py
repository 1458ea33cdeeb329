"""Columns of Arrow in the types of a schema.

They are converted only if nothing could differ from the check of each payload: any other column is `Undecided`, and its
payloads are checked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.schemas.kinds import Array, Decimals, Kind, Map, Plain, Struct

TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types without parameters."""

_DAY, _TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
MOMENTS: Final[Mapping[str, str]] = {
    "date": f"^{_DAY}$",
    "timestamp": f"^{_DAY}{_TIME}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$",
    "timestamp_ntz": f"^{_DAY}{_TIME}$",
}
"""Types that are read as text, and cast. Any text that does not match is undecided."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})


class Undecided(Exception):
    """A column may have values that do not fit."""


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a field, or of whole payloads."""
    match kind:
        case Struct(fields):
            return pa.struct([(field.name, arrow_type(field.kind)) for field in fields])
        case Array(of):
            return pa.list_(arrow_type(of))
        case Map(of):
            return pa.map_(pa.string(), arrow_type(of))
        case Decimals(precision, scale):
            return pa.decimal128(precision, scale)
        case Plain(name):
            return TYPES[name]


def read_type(kind: Kind) -> pa.DataType:
    """Return the type in which JSON has values of a type: times are texts."""
    match kind:
        case Plain(name) if name in MOMENTS:
            return pa.string()
        case Struct(fields):
            return pa.struct([(field.name, read_type(field.kind)) for field in fields])
    return arrow_type(kind)


def structs_of_columns(struct: Struct, table: pa.Table) -> pa.StructArray | None:
    """Return rows with the types of JSON as structs of a schema, if all fit and that is decided; otherwise None."""
    if not table.num_columns:
        return None
    try:
        return fitted(struct, _as_read(struct, table.to_struct_array().combine_chunks()))
    except (Undecided, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def fitted(kind: Kind, values: pa.Array) -> pa.Array:
    """Return values, of the types as which they are read, in their own type. Raises Undecided or ArrowInvalid."""
    match kind:
        case Plain("float" | "double"):
            _finite(values)
        case Array(Plain("float" | "double")):
            _finite(values.flatten())
        case Plain(name) if name in MOMENTS:
            if values.null_count < len(values) and not pc.all(pc.match_substring_regex(values, MOMENTS[name])).as_py():
                raise Undecided
            return values.cast(TYPES[name])
        case Struct(fields):
            there = values.drop_null()
            if any(not field.nullable and there.field(n).null_count for n, field in enumerate(fields)):
                raise Undecided
            inner = [fitted(field.kind, values.field(n)) for n, field in enumerate(fields)]
            return pa.StructArray.from_arrays(inner, names=[field.name for field in fields], mask=values.is_null())
    return values


def _finite(values: pa.Array) -> None:
    if values.null_count < len(values) and not pc.all(pc.is_finite(values)).as_py():
        raise Undecided


def _as_read(kind: Kind, values: pa.Array) -> pa.Array:
    """Return values in the type as which they are read. Raises Undecided or ArrowInvalid."""
    wanted = read_type(kind)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), wanted)
    match kind:
        case Plain(name) if _is_castable(values.type, name):
            return values.cast(wanted)
        case Array(Plain(name)) if name not in MOMENTS and pa.types.is_list(values.type):
            if pa.types.is_null(values.type.value_type) or _is_castable(values.type.value_type, name):
                return values.cast(wanted)
        case Struct(fields) if pa.types.is_struct(values.type):
            given = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
            if {field.name for field in fields}.issuperset(given):
                inner = [_as_read(field.kind, given.get(field.name, pa.nulls(len(values)))) for field in fields]
                return pa.StructArray.from_arrays(inner, fields=list(wanted), mask=values.is_null())
    raise Undecided


def _is_castable(given: pa.DataType, name: str) -> bool:
    """Return whether a cast changes no value, or raises."""
    if name in _WHOLE:
        return bool(pa.types.is_integer(given))
    if name in _FLOATS:
        return bool(pa.types.is_integer(given) or pa.types.is_floating(given))
    return bool(given == (pa.string() if name in MOMENTS else TYPES[name]))
