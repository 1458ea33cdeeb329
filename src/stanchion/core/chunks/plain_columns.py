"""Values of Arrow as JSON has them: maps and structs as objects, times as ISO text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from stanchion.core.chunks.arrow import pa, pc
from stanchion.errors import InvalidInput

Convert = Callable[..., object]

_UNITS = {"s": ("s",), "ms": ("s", "us"), "us": ("s", "us"), "ns": ("s", "us", "ns")}
"""Units in which the times of a unit are written, of which each time gets the first that is exact."""

_UTC = frozenset({"UTC", "Etc/UTC", "+00:00", "Z"})


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
    if _is_list(kind):
        return _of_list(_converter(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _converter(kind.value_type)
    if _is_time(kind):
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


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def plain_column(name: str, column: pa.Array) -> pa.Array | list[object]:
    """Return a column as one of types that JSON has, or its values where those are objects of any fields: maps.

    Raises InvalidInput, which names the column, if JSON can't hold its values.
    """
    kind = column.type
    if _is_plain(kind):
        if _has_floats(kind):
            _check_finite(name, column)
        return column
    if pa.types.is_dictionary(kind):
        return plain_column(name, column.cast(kind.value_type))
    plain = _plain_type(kind, name)
    try:
        if _any(pa.types.is_map, kind):
            return plain_values(column)
        if _is_time(kind):
            return _iso_text(column)
        if _any(_is_time, kind):
            column = pa.array(plain_values(column), plain)
        elif plain != kind:
            column = column.cast(plain)
    except (ValueError, OverflowError) as error:  # such as times after the year 9999
        raise InvalidInput(f"the column {name} has a value that JSON can't hold ({error}); correct it") from None
    if _has_floats(plain):
        _check_finite(name, column)
    return column


@lru_cache(maxsize=256)
def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values of this type are stored as they are."""
    try:
        return bool(_plain_type(kind, "") == kind) and not _any(pa.types.is_map, kind)
    except InvalidInput:
        return False


@lru_cache(maxsize=256)
def _has_floats(kind: pa.DataType) -> bool:
    return _any(pa.types.is_floating, kind)


def _plain_type(kind: pa.DataType, path: str) -> pa.DataType:
    """Return the type as which values of this type are stored. InvalidInput names the part that JSON can't hold."""
    types = pa.types
    if types.is_struct(kind):
        check_names([field.name for field in kind], path)
        return pa.struct([(field.name, _plain_type(field.type, f"{path}.{field.name}")) for field in kind])
    if types.is_map(kind):
        if not (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
            raise InvalidInput(f"the keys of {path} are of type {kind.key_type}; JSON has strings only; cast them")
        return pa.map_(pa.string(), _plain_type(kind.item_type, f"{path}[]"))
    if _is_list(kind):
        return pa.list_(_plain_type(kind.value_type, f"{path}[]"))
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type, path)
    if types.is_large_string(kind) or types.is_string_view(kind) or _is_time(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_integer(kind) or types.is_floating(kind) or kind in (pa.string(), pa.bool_(), pa.null()):
        return kind
    if types.is_decimal(kind):
        raise InvalidInput(
            f"the column {path} is of type {kind}, which has more digits than a number here; cast it to string or "
            f"double"
        )
    raise InvalidInput(f"the column {path} is of type {kind}, which JSON can't hold; cast it to string or double")


def check_names(names: list[object], path: str = "") -> None:
    """Refuse fields that an object can't have: their names are no strings, or the same."""
    where = f" of {path}" if path else ""
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"the name of the column {name!r}{where} is not a string; rename it")
    if len(set(names)) < len(names):
        twice = next(name for n, name in enumerate(names) if name in names[:n])
        raise InvalidInput(f"two columns{where} have the name {twice!r}; rename one of them")


def _any(test: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    """Return whether a type, or a part of it, passes a test."""
    if pa.types.is_dictionary(kind):
        return _any(test, kind.value_type)
    return test(kind) or any(_any(test, kind.field(n).type) for n in range(kind.num_fields))


def _check_finite(name: str, column: pa.Array) -> None:
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if pa.types.is_struct(chunk.type):
            for field, values in zip(chunk.type, chunk.flatten(), strict=True):
                _check_finite(f"{name}.{field.name}", values)
        elif _is_list(chunk.type):
            _check_finite(f"{name}[]", chunk.flatten())
        elif pa.types.is_floating(chunk.type) and pc.all(pc.is_finite(chunk)).as_py() is False:
            raise InvalidInput(f"the column {name} has NaN or infinite values, which JSON can't hold; make them null")


def _iso_text(column: pa.Array) -> pa.Array:
    """Return dates and times as text, as `isoformat` of Python and pandas writes them."""
    kind = column.type
    if pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None and kind.tz not in _UTC):
        return pa.array(plain_values(column), pa.string())
    local = column.cast(pa.date32() if pa.types.is_date(kind) else pa.timestamp(kind.unit))
    years = pc.min_max(pc.year(local)).as_py()
    if years["min"] is not None and not 1000 <= years["min"] <= years["max"] <= 9999:  # Arrow writes others differently
        return pa.array(plain_values(column), pa.string())
    if pa.types.is_date(kind):
        return local.cast(pa.string())
    return _moments(local) if kind.tz is None else pc.binary_join_element_wise(_moments(local), "+00:00", "")


def _moments(column: pa.Array) -> pa.Array:
    """Return timestamps of no zone as text, each with as many digits as it needs: none, six or nine."""
    written = []
    for unit in _UNITS[column.type.unit]:
        rounded = column.cast(pa.timestamp(unit), safe=False)
        fits = pc.equal(rounded.cast(column.type, safe=False), column)
        written.append((fits, pc.utf8_replace_slice(rounded.cast(pa.string()), 10, 11, "T")))
        if pc.all(fits).as_py() is not False:
            break
    _, text = written.pop()
    for fits, shorter in reversed(written):
        text = pc.if_else(fits, shorter, text)
    return text
