"""Instances of models, dataclasses or Pydantic's, as plain values for JSON."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeGuard

from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel


def is_attrs(kind: object) -> bool:
    """Return whether this is a class of attrs."""
    return isinstance(kind, type) and hasattr(kind, "__attrs_attrs__")


def attributes(kind: Any) -> tuple[Any, ...]:
    """Return the attributes of a class of attrs: each has a name, an alias, a default, and an init."""
    found: tuple[object, ...] = kind.__attrs_attrs__
    return found


def is_path(kind: object) -> bool:
    """Return whether this is a class of paths; a program that has one has loaded its module, with six others."""
    path = getattr(sys.modules.get("pathlib"), "PurePath", None)
    return path is not None and isinstance(kind, type) and issubclass(kind, path)


def is_uuid(kind: object) -> bool:
    """Return whether this is a class of UUIDs; a program that has one has loaded its module, with two others."""
    uuid = getattr(sys.modules.get("uuid"), "UUID", None)
    return uuid is not None and isinstance(kind, type) and issubclass(kind, uuid)


PLAIN = (str, int, float, dict, list, type(None))
"""Classes whose instances JSON has."""

ToPlain = Callable[[Any], object]
"""Returns an instance of a model as a plain value. Raises TypeError for anything else, as JSON encoders ask."""


def is_model(kind: object) -> bool:
    """Return whether this is a class of models."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_pydantic(kind))


def is_pydantic(kind: type) -> TypeGuard[type[BaseModel]]:
    """Return whether this is a class of Pydantic's models; it need not be installed."""
    return hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_validate")


def plain_model(value: Any) -> object:
    """Return an instance of a model as its own serializers say, its times as ISO text, its decimals as their digits.

    Raises InvalidInput for a secret of Pydantic, whose serializer writes asterisks; TypeError for anything else.
    """
    if not is_pydantic(type(value)):
        return plain_dataclass(value, plain_model)
    found = value.model_dump(mode="json", by_alias=True)
    if (masked := next(_masked(value, found), None)) is not None:
        raise InvalidInput(f"{type(value).__name__} has a secret at {masked}, which {SECRET}")
    return found


SECRET = "would be stored as asterisks; give it a serializer for JSON that returns the secret, or pass its id"  # noqa: S105


def plain_dataclass(value: object, model: ToPlain) -> object:
    """Return an instance of a dataclass as an object. `model`: for the models in it. Raises TypeError for others."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), model) for field in fields(value)}
    raise TypeError(unknown_kind(value))


def unknown_kind(value: object) -> str:
    """Return why JSON can't hold a value, and what to pass instead."""
    kind = type(value)
    text, library = f"Object of type {kind.__name__} is not JSON serializable", kind.__module__.partition(".")[0]
    if library in ("numpy", "pandas") and hasattr(value, "to_pydatetime"):
        return f"{text}: pass its to_pydatetime(), to a parameter annotated datetime"
    if library in ("numpy", "pandas") and hasattr(value, "tolist"):
        return f"{text}: pass its {'item' if getattr(value, 'ndim', 1) == 0 else 'tolist'}()"
    if isinstance(value, _CONVERTIBLE) or is_attrs(kind) or is_path(kind) or is_uuid(kind):
        return f"{text}: annotate the parameter or the result with its type, or pass a plain value"
    return text


_CONVERTIBLE = (date, time, timedelta, Decimal, Enum, bytes, bytearray, set, frozenset)


def plain(value: object, model: ToPlain = plain_model) -> object:
    """Return a value of a field as JSON can hold it; unknown types are left to the encoder."""
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Enum):
        return plain(value.value, model)
    if isinstance(value, Mapping):
        return {key: plain(one, model) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, model) for one in value]
    if is_model(type(value)):
        return model(value)
    return _rarely(value, model)


def _rarely(value: object, model: ToPlain) -> object:
    """Return a value of a type that is rare in calls."""
    if isinstance(value, timedelta):
        return value.total_seconds() if value.microseconds else value // timedelta(seconds=1)
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    if is_path(type(value)) or is_uuid(type(value)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return _in_order(plain(one, model) for one in value)
    if is_attrs(type(value)):
        return {one.name: plain(getattr(value, one.name), model) for one in attributes(type(value))}
    return value


def _in_order(values: Iterable[object]) -> list[Any]:
    """Return the elements of a set as a list that is the same for equal sets."""
    found = list(values)
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=repr)


def is_secret(value: object) -> bool:
    """Return whether this is a secret of Pydantic, which hides its value from serializers."""
    return hasattr(value, "get_secret_value")


def _masked(value: object, found: object) -> Iterator[str]:
    """Yield the places of asterisks in the dump of a model that has secrets."""
    starred = [(place, text) for place, text in _texts(found, "") if text and not text.strip("*")]
    if starred:
        masks = {str(one) for one in _secrets(value)}
        yield from (place for place, text in starred if text in masks)


def _texts(found: object, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(found, str):
        yield place, found
    elif isinstance(found, dict):
        for key, one in found.items():
            yield from _texts(one, f"{place}.{key}" if place else str(key))
    elif isinstance(found, list):
        for n, one in enumerate(found):
            yield from _texts(one, f"{place}[{n}]")


def _secrets(value: object) -> Iterator[object]:
    if is_secret(value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _secrets(one)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            yield from _secrets(one)
    elif is_model(type(value)):
        yield from _secrets({**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})})
