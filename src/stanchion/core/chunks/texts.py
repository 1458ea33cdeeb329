"""The JSON of items that are stored as columns, made column by column: that is several times as fast."""

from __future__ import annotations

import json.encoder
from collections.abc import Sequence

from stanchion.core.chunks.arrow import pa, pc
from stanchion.core.chunks.columns import listed
from stanchion.core.values.codec import Codec

_ESCAPED = r'["\\\x00-\x1f]'
"""Matches strings that JSON writes with escapes."""

_quote = json.encoder.encode_basestring


def texts_of(table: pa.Table) -> pa.Array:
    """Return the JSON of each row, as `Codec` writes it. A table without columns has rows without fields."""
    if not table.num_columns:
        return pa.array(["{}"] * table.num_rows, pa.string())
    return _objects(table.schema.names, [column.combine_chunks() for column in table.columns])


def longest_of(table: pa.Table) -> int | None:
    """Return a number of bytes that the JSON of no row exceeds; None if that is not known without writing it."""
    longest = 2
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_string(column.type):
            longest += _ESCAPED_BYTES * (pc.max(pc.binary_length(column)).as_py() or 0)
        elif pa.types.is_nested(column.type):
            return None
        longest += _ESCAPED_BYTES * len(name.encode()) + _NUMBER_BYTES
    return longest


_ESCAPED_BYTES = 6
"""Bytes of JSON of one byte, at most: `\\u0001`."""

_NUMBER_BYTES = 30
"""Bytes of a number or a word, and of the signs around a field, at most."""


def _objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    parts: list[pa.Array | str] = []
    for n, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [f"{',' if n else '{'}{_quote(name)}:", _texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _texts(column: pa.Array) -> pa.Array:
    """Return the JSON of each value; none of them is null."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.array(["null"] * len(column), pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        found = column.cast(pa.string())
    elif pa.types.is_string(kind):
        found = _strings(column)
    elif pa.types.is_floating(kind):
        found = _floats(column)
    elif pa.types.is_struct(kind) and kind.num_fields:
        found = _objects([field.name for field in kind], column.flatten())
    else:  # lists
        encode = Codec(max_payload=_ANY_SIZE).plain
        return pa.array([encode(value, "payload") for value in listed(column)], pa.string())
    return pc.if_else(column.is_valid(), found, "null") if column.null_count else found


def _strings(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pa.array([None if text is None else _quote(text) for text in column.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', column, '"', "")


def _floats(column: pa.Array) -> pa.Array:
    if pa.types.is_float64(column.type) and _are_written_alike(column):
        texts = column.cast(pa.string())
        return pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))
    return pa.array([None if value is None else float.__repr__(value) for value in column.to_pylist()], pa.string())


def _are_written_alike(column: pa.Array) -> bool:
    """Return whether Arrow and Python write these floats with the same digits, and without an exponent."""
    sizes = pc.abs(column)
    least = pc.min(pc.if_else(pc.equal(sizes, 0), None, sizes)).as_py()
    return least is None or bool(least >= _LEAST and pc.max(sizes).as_py() < _MOST)


_LEAST, _MOST = 1e-4, 1e10
_ANY_SIZE = 1 << 62
