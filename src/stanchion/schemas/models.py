"""Schemas from classes: dataclasses, TypedDicts and Pydantic's models.

A field is not null if its type does not allow None, and it has no default or is a required key.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from stanchion.core.checks import brief
from stanchion.core.values.plain import is_pydantic
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.schemas.ddl import MOST_NESTED, check_names, struct_of
from stanchion.schemas.kinds import MOST_DIGITS, Array, Decimals, Field, Kind, Map, Plain, Schema, Struct

_PLAIN: dict[object, Kind] = {
    **{bool: Plain("boolean"), int: Plain("bigint"), float: Plain("double")},
    **{str: Plain("string"), UUID: Plain("string")},
    **{datetime: Plain("timestamp"), date: Plain("date"), Decimal: Decimals(MOST_DIGITS, 18)},
}


def schema_from(given: object) -> Schema:
    """Return the schema that DDL or a class stands for. Raises InvalidInput."""
    if isinstance(given, Schema):
        return Schema(given.struct)
    if isinstance(given, str):
        return Schema(struct_of(given))
    struct = struct_of_model(given)
    check_names(struct)
    return Schema(struct)


class _Given(NamedTuple):
    """A field of a class."""

    name: str
    hint: object
    has_default: bool


def struct_of_model(model: Any, depth: int = 0) -> Struct:
    """Return the fields of a class. Raises InvalidInput for one that is no model, or that has other types."""
    if depth > MOST_NESTED:
        raise InvalidInput(f"{model.__name__} is nested more than {MOST_NESTED} deep, or within itself; flatten it")
    found = []
    for name, hint, has_default in _fields_of(model):
        kind, nullable = _kind(hint, depth, f"{model.__name__}.{name}")
        found.append(Field(name, kind, nullable or has_default))
    if not found:
        raise InvalidInput(f"{model.__name__} has no fields; a schema has at least one")
    return Struct(tuple(found))


def _fields_of(model: object) -> Iterator[_Given]:
    if isinstance(model, type) and is_pydantic(model):
        for name, field in model.model_fields.items():
            alias = field.serialization_alias or field.alias or name
            yield _Given(alias, field.annotation, not field.is_required())
    elif isinstance(model, type) and is_dataclass(model):
        hints = get_type_hints(model, include_extras=True)
        for one in fields(model):
            yield _Given(one.name, hints[one.name], (one.default, one.default_factory) != (MISSING, MISSING))
    elif is_typed_dict(model):
        for name, hint in get_type_hints(model, include_extras=True).items():
            yield _Given(name, hint, not _is_needed(model, name, hint))
    elif isinstance(model, type) and hasattr(model, "__fields__") and hasattr(model, "parse_obj"):
        raise MissingExtra("pydantic", f"the schema {model.__name__}, a model of Pydantic 1,")
    else:
        raise InvalidInput(
            f"a schema is DDL such as 'id bigint not null, city string', a dataclass, a TypedDict, or a model of "
            f"Pydantic, not {brief(model)}"
        )


def is_typed_dict(model: object) -> bool:
    """Return whether a class is a TypedDict."""
    return isinstance(model, type) and hasattr(model, "__required_keys__")


def _is_needed(model: object, name: str, hint: object) -> bool:
    """Return whether each instance of a TypedDict has this key."""
    if (origin := get_origin(hint)) in (Required, NotRequired):  # the class does not know it, where it stands as text
        return origin is Required
    return name in getattr(model, "__required_keys__", ())


def _kind(hint: object, depth: int, path: str) -> tuple[Kind, bool]:
    """Return the type of a field, and whether it may be None."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Annotated, Required, NotRequired):
        return _kind(args[0], depth, path)
    if origin in (Union, types.UnionType):
        kinds = {_kind(one, depth, path)[0] for one in args if one is not type(None)}
        if len(kinds) == 1:
            return kinds.pop(), type(None) in args
    elif origin is Literal:
        kinds = {_kind(type(one), depth, path)[0] for one in args}
        if len(kinds) == 1:
            return kinds.pop(), False
    elif isinstance(hint, type) and (found := _of_class(hint, depth)) is not None:
        return found, False
    elif isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
        return Map(_kind(args[1], depth + 1, path)[0]), False
    elif isinstance(origin, type) and issubclass(origin, Sequence) and (len(args) == 1 or args[1:] == (...,)):
        return Array(_kind(args[0], depth + 1, path)[0]), False
    raise InvalidInput(
        f"{path} is of type {brief(hint)}, which has no counterpart in a schema; use bool, int, float, str, Decimal, "
        f"date, datetime, list[...], dict[str, ...], a class with fields of these, or write the schema in DDL"
    )


def _of_class(hint: type, depth: int) -> Kind | None:
    if is_dataclass(hint) or is_typed_dict(hint) or is_pydantic(hint):
        return struct_of_model(hint, depth + 1)
    return plain_kind(hint)


def plain_kind(hint: type) -> Kind | None:
    """Return the type of the values of a class that is no model; None if it has no counterpart."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if issubclass(hint, Enum):
        kinds = {_PLAIN.get(type(one.value)) for one in hint}
        return kinds.pop() if len(kinds) == 1 else None
    return next((_PLAIN[one] for one in (str, int, float) if get_origin(hint) is None and issubclass(hint, one)), None)
