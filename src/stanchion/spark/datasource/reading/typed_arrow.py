"""Payloads as an Arrow column of structs, by the schema of their queue.

The fast way does not process rows singly: Arrow's JSON parser reads a batch, and is stricter than the check of a
payload. It accepts the result only if nothing could differ; any other batch is checked row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.schemas.kinds import Array, Decimals, Kind, Map, Plain, Struct
from stanchion.spark.datasource.json_texts import json_lines, may_be_compact

_PLAIN = {
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

_DAY, _TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_MOMENTS = {
    "date": f"^{_DAY}$",
    "timestamp": f"^{_DAY}{_TIME}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$",
    "timestamp_ntz": f"^{_DAY}{_TIME}$",
}
"""Types that the fast way reads as text, and casts. Any text that does not match takes the slow way."""

_INEXACT = {"double": r"[0-9]{16}", "float": r"[0-9]{8}"}
"""Number of digits from which a whole number may not be exact in a type."""


_ANY_SIZE = 1 << 40


class _RowByRow(Exception):
    """The fast way can't decide whether the batch fits."""


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
            return _PLAIN[name]


# -- the fast way


def parsed(struct: Struct, texts: pa.Array) -> pa.StructArray | None:
    """Return payloads as structs if all fit, none is null, and Arrow can decide that; otherwise None."""
    if _plain_kinds(struct) is None or not len(texts) or not may_be_compact(texts, _ANY_SIZE):
        return None
    return parsed_compact(struct, texts)


def parsed_compact(struct: Struct, texts: pa.Array) -> pa.StructArray | None:
    """Return the result of `parsed`, for texts whose `may_be_compact` is known."""
    kinds = _plain_kinds(struct)
    if kinds is None:
        return None
    for name, digits in _INEXACT.items():
        if name in kinds and pc.any(pc.match_substring_regex(texts, digits)).as_py():
            return None
    asked = pa.schema([(field.name, _as_read(field.kind)) for field in struct.fields])
    try:
        found = json_lines(texts, asked, "error")
        if found is None or found.num_rows != len(texts):
            return None
        rows = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in found.columns], names=found.column_names
        )
        return _fitted(struct, rows)
    except (_RowByRow, pa.ArrowInvalid):
        return None


def _plain_kinds(kind: Kind) -> set[str] | None:
    """Return the types without parameters within one; None if the fast way does not take it."""
    match kind:
        case Plain(name):
            return {name}
        case Struct(fields):
            found = [_plain_kinds(field.kind) for field in fields]
            return None if None in found else set().union(*(one for one in found if one is not None))
        case Array(Plain(name)) if name not in _MOMENTS:
            return {name}
    return None


def _as_read(kind: Kind) -> pa.DataType:
    """Return the type that Arrow's parser is asked for."""
    match kind:
        case Plain(name) if name in _MOMENTS:
            return pa.string()
        case Struct(fields):
            return pa.struct([(field.name, _as_read(field.kind)) for field in fields])
    return arrow_type(kind)


def _fitted(kind: Kind, values: pa.Array) -> pa.Array:
    """Return the read values in their own type. Raises _RowByRow or ArrowInvalid for possible misfits."""
    match kind:
        case Plain("float" | "double"):
            _finite(values)
        case Array(Plain("float" | "double")):
            _finite(values.flatten())
        case Plain(name) if name in _MOMENTS:
            if values.null_count < len(values) and not pc.all(pc.match_substring_regex(values, _MOMENTS[name])).as_py():
                raise _RowByRow
            return values.cast(_PLAIN[name])
        case Struct(fields):
            there = values.drop_null()
            if any(not field.nullable and there.field(n).null_count for n, field in enumerate(fields)):
                raise _RowByRow
            inner = [_fitted(field.kind, values.field(n)) for n, field in enumerate(fields)]
            return pa.StructArray.from_arrays(inner, names=[field.name for field in fields], mask=values.is_null())
    return values


def _finite(values: pa.Array) -> None:
    if values.null_count < len(values) and not pc.all(pc.is_finite(values)).as_py():
        raise _RowByRow


# -- row by row

Convert = Callable[[Any], object]


def structs(struct: Struct, values: Sequence[object]) -> pa.StructArray:
    """Return decoded payloads that fit, and None for others, as structs."""
    convert = _convert(struct)
    return pa.array([None if one is None else convert(one) for one in values], arrow_type(struct))


def _convert(kind: Kind) -> Convert:
    """Return the function that turns a value of JSON that fits into one for Arrow; it is not called for null."""
    match kind:
        case Struct(fields):
            inner = {field.name: _convert(field.kind) for field in fields}
            return lambda value: {name: _of(one, value.get(name)) for name, one in inner.items()}
        case Array(of):
            of_one = _convert(of)
            return lambda value: [_of(of_one, one) for one in value]
        case Map(of):
            of_value = _convert(of)
            return lambda value: [(key, _of(of_value, one)) for key, one in value.items()]
        case Decimals(_, scale):
            unit, exact = Decimal(1).scaleb(-scale), Context(prec=100)
            return lambda value: Decimal(str(value)).quantize(unit, context=exact)
        case Plain(name):
            return _CONVERSIONS.get(name, lambda value: value)


def _of(convert: Convert, value: object) -> object:
    return None if value is None else convert(value)


_CONVERSIONS: dict[str, Convert] = {
    "float": float,
    "double": float,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
}
