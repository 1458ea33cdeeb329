"""Values of Python without parts, such as times and bytes, from their plain values; `core.values.plain` makes these."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from stanchion.core.values.plain import is_path, plain

CONVERTED = (date, time, timedelta, Decimal, UUID, Enum, bytes, bytearray, tuple, set, frozenset)
"""Classes whose instances JSON does not have: an annotation with one makes instances of what arrives."""

Make = Callable[[Any], object]
"""Returns the value for a plain one. Raises TypeError or ValueError."""


def leaf_maker(hint: type) -> Make | None:
    """Return what makes values of a class; None for one that is not known here."""
    if is_path(hint):
        return _of(str, hint)
    made = next((make(hint) for kind, make in _MAKERS.items() if issubclass(hint, kind)), None)
    return _member_maker(hint) if made is None and issubclass(hint, Enum) else made


def _of(kinds: type | tuple[type, ...], make: Make) -> Make:
    def checked(value: object) -> object:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"it is of type {type(value).__name__}")
        return make(value)

    return checked


_MAKERS: dict[type, Callable[[Any], Make]] = {
    datetime: lambda hint: _of(str, lambda value: hint.fromisoformat(_with_time(value))),
    time: lambda hint: _of(str, hint.fromisoformat),
    timedelta: lambda hint: _of((int, float), lambda value: hint(seconds=value)),
    Decimal: lambda hint: _of((str, int, float), lambda value: hint(str(value))),
    bytes: lambda hint: _of(str, lambda value: hint(b64decode(value, validate=True))),
    bytearray: lambda hint: _of(str, lambda value: hint(b64decode(value, validate=True))),
}
"""By class; a datetime is a date, so that it comes from a time of its own."""


def _with_time(text: str) -> str:
    if len(text) <= len("2026-01-31"):
        raise ValueError("it is a date without a time")
    return text


def _member_maker(hint: type[Enum]) -> Make:
    """Return what finds members by their plain values, for values of several types."""
    members = {json.dumps(plain(one.value)): one for one in hint}

    def find(value: object) -> object:
        text = json.dumps(value)
        if text not in members:
            raise ValueError(f"it is none of {', '.join(members)}")
        return members[text]

    return find
