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
from stanchion.schemas.typed_columns import MOMENTS, Undecided, arrow_type, fitted, read_type
from stanchion.spark.datasource.json_texts import json_lines, may_be_compact

_INEXACT = {"double": r"[0-9]{16}", "float": r"[0-9]{8}"}
"""Number of digits from which a whole number may not be exact in a type."""


_ANY_SIZE = 1 << 40


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
    asked = pa.schema([(field.name, read_type(field.kind)) for field in struct.fields])
    try:
        found = json_lines(texts, asked, "error")
        if found is None or found.num_rows != len(texts):
            return None
        rows = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in found.columns], names=found.column_names
        )
        return fitted(struct, rows)
    except (Undecided, pa.ArrowInvalid):
        return None


def _plain_kinds(kind: Kind) -> set[str] | None:
    """Return the types without parameters within one; None if the fast way does not take it."""
    match kind:
        case Plain(name):
            return {name}
        case Struct(fields):
            found = [_plain_kinds(field.kind) for field in fields]
            return None if None in found else set().union(*(one for one in found if one is not None))
        case Array(Plain(name)) if name not in MOMENTS:
            return {name}
    return None


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
