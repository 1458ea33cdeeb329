"""Instances of models from plain values of JSON that fit them."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from stanchion.core.plain import is_pydantic
from stanchion.schemas.kinds import Array, Kind, Map, Struct


def built(model: type, value: Mapping[str, Any]) -> Any:
    """Return an instance of a dataclass. A null stands for the default where the field can't be None."""
    return model(**{name: _of(hint, value.get(name)) for name, hint, needed in _fields(model) if needed(value, name)})


@lru_cache(maxsize=1000)
def _fields(model: type) -> list[tuple[str, Any, Callable[[Mapping[str, Any], str], bool]]]:
    """Return the fields of a dataclass, and what says whether its constructor needs a value."""
    hints = get_type_hints(model, include_extras=True)
    found: list[tuple[str, Any, Callable[[Mapping[str, Any], str], bool]]] = []
    for field in fields(model):
        hint = hints[field.name]
        if (field.default, field.default_factory) == (MISSING, MISSING):
            needed: Callable[[Mapping[str, Any], str], bool] = _always
        else:
            needed = _is_there if admits_none(hint) else _has_value
        if field.init:
            found.append((field.name, hint, needed))
    return found


def _always(_value: Mapping[str, Any], _name: str) -> bool:
    return True


def _is_there(value: Mapping[str, Any], name: str) -> bool:
    return name in value


def _has_value(value: Mapping[str, Any], name: str) -> bool:
    return value.get(name) is not None


def _of(hint: Any, value: Any) -> Any:
    """Return a value of JSON in the type of a field."""
    origin, args = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin is Annotated:
        return _of(args[0], value)
    if origin in (Union, types.UnionType):
        return _of(next(one for one in args if one is not type(None)), value)
    if origin is Literal and value not in args:
        raise ValueError(f"it is none of {', '.join(map(repr, args))}")
    if origin is Literal or hint is Any:
        return value
    if origin is not None and isinstance(value, dict):
        return {key: _of(args[1], one) for key, one in value.items()}
    if origin is not None:
        several = [_of(args[0], one) for one in value]
        return tuple(several) if origin is tuple else several
    return _of_class(hint, value)


def _of_class(hint: type, value: Any) -> Any:
    if is_pydantic(hint):
        return hint.model_validate(value)  # type: ignore[attr-defined]
    if is_dataclass(hint):
        return built(hint, value)
    if issubclass(hint, (datetime, date)):
        return hint.fromisoformat(value)
    if issubclass(hint, Decimal):
        return hint(str(value))
    if issubclass(hint, (UUID, Enum, float)):
        return hint(value)
    return value


def admits_none(hint: Any) -> bool:
    """Return whether None is a value of a type."""
    if get_origin(hint) is Annotated:
        return admits_none(get_args(hint)[0])
    return hint in (None, type(None), Any) or type(None) in get_args(hint)


def without_unknown(kind: Kind, value: Any) -> Any:
    """Return a plain value without the fields that its type does not have."""
    match kind, value:
        case Struct(fields), dict():
            known = {field.name: field.kind for field in fields}
            return {name: without_unknown(known[name], one) for name, one in value.items() if name in known}
        case Array(of), list():
            return [without_unknown(of, one) for one in value]
        case Map(of), dict():
            return {key: without_unknown(of, one) for key, one in value.items()}
    return value
