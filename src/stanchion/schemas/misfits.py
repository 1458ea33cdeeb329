"""Checking values against a schema: compiled once, so that a payload that fits costs little."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from stanchion.core.values.codec import decoder
from stanchion.schemas.kinds import Array, Decimals, Kind, Map, Plain, Struct, quoted


class Misfit(NamedTuple):
    """Why a value does not fit. `path`: of the field, empty for the whole payload; `reason`: a clause about it.

    No part of the value is in it, as people may see it who are not to see the payload.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"field {self.path} {self.reason}" if self.path else f"it {self.reason}"


Check = Callable[[object], Misfit | None]
"""Returns why a value does not fit, or None."""


class Checker:
    """Checks payloads against the fields of a schema."""

    def __init__(self, struct: Struct) -> None:
        self.value = _struct(struct)
        """The check of a decoded payload."""
        exact = _has_decimals(struct)
        self._decode = decoder(parse_constant=_no_number, parse_float=Decimal if exact else None)

    def text(self, text: str) -> Misfit | None:
        """Return why a payload, given as its JSON, does not fit, or None."""
        found = self.decoded(text)
        return found if isinstance(found, Misfit) else self.value(found)

    def decoded(self, text: str) -> object:
        """Return the value of JSON, its decimals exact, or a Misfit for text that is no JSON."""
        try:
            return self._decode(text)
        except _NoNumberError as error:
            return Misfit("", f"contains {error}, which is no number of JSON")
        except (ValueError, ArithmeticError, RecursionError):
            return Misfit("", "is not JSON, is nested too deep, or has a number of too many digits")


class _NoNumberError(ValueError):
    """A word that stands for no number, such as NaN."""


def _no_number(word: str) -> object:
    raise _NoNumberError(word)


def _has_decimals(kind: Kind) -> bool:
    if isinstance(kind, Struct):
        return any(_has_decimals(field.kind) for field in kind.fields)
    return _has_decimals(kind.of) if isinstance(kind, (Array, Map)) else isinstance(kind, Decimals)


def check_of(kind: Kind) -> Check:
    """Return the check of a type; it is not called for null."""
    if isinstance(kind, Struct):
        return _struct(kind)
    if isinstance(kind, Array):
        return _array(check_of(kind.of), str(kind))
    if isinstance(kind, Map):
        return _map(check_of(kind.of), str(kind))
    if isinstance(kind, Decimals):
        return _decimal(kind)
    return _plain(kind)


def _is(value: object, wanted: str) -> Misfit:
    return Misfit("", f"is {_called(value)}, not {wanted}")


def _called(value: object) -> str:
    """Return the JSON name of a value's type."""
    for kind, name in _NAMES.items():
        if isinstance(value, kind):
            return name
    return "null" if value is None else type(value).__name__


_NAMES: dict[type, str] = {
    **{bool: "a boolean", int: "a whole number", str: "a string", dict: "an object", list: "an array"},
    **dict.fromkeys((float, Decimal), "a number with a fraction"),
}


def _struct(kind: Struct) -> Check:
    fields = [(field.name, field.nullable, check_of(field.kind)) for field in kind.fields]
    known = frozenset(name for name, _, _ in fields)

    def check(value: object) -> Misfit | None:
        if not isinstance(value, dict):
            return _is(value, "an object")
        for name, nullable, inner in fields:
            one = value.get(name)
            if one is None:
                if not nullable:
                    return Misfit(quoted(name), "is null" if name in value else "is missing")
            elif (misfit := inner(one)) is not None:
                return within(quoted(name), misfit)
        if not known.issuperset(value):
            name = next(one for one in value if one not in known)
            return Misfit(quoted(name[:_SHOWN]), "is not in the schema")
        return None

    return check


_SHOWN = 100


def within(outer: str, misfit: Misfit) -> Misfit:
    """Return a misfit with the path of the value that it is in."""
    between = "." if misfit.path and not misfit.path.startswith("[") else ""
    return misfit._replace(path=f"{outer}{between}{misfit.path}")


def _array(inner: Check, name: str) -> Check:
    def check(value: object) -> Misfit | None:
        if not isinstance(value, list):
            return _is(value, name)
        for n, one in enumerate(value):
            if one is not None and (misfit := inner(one)) is not None:
                return within(f"[{n}]", misfit)
        return None

    return check


def _map(inner: Check, name: str) -> Check:
    def check(value: object) -> Misfit | None:
        if not isinstance(value, dict):
            return _is(value, name)
        for key, one in value.items():
            if not _is_text(key):
                return Misfit("", "has a key that is no valid Unicode")
            if one is not None and (misfit := inner(one)) is not None:
                return within(f"[{quoted(key[:_SHOWN])}]", misfit)
        return None

    return check


def _decimal(kind: Decimals) -> Check:
    name = str(kind)

    def check(value: object) -> Misfit | None:
        number = value if isinstance(value, Decimal) else None
        if isinstance(value, str) and len(value) < _LONG and _DECIMAL(value):
            number = Decimal(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            number = Decimal(repr(value)) if isinstance(value, float) or abs(value) < _BEYOND else Decimal("inf")
        if number is None:
            return _is(value, f"{name}, a number or its digits in a string")
        return None if _fits(number, kind) else Misfit("", f"has more digits than {name}")

    return check


_LONG, _BEYOND = 100, 10**60
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?").fullmatch


def _fits(number: Decimal, kind: Decimals) -> bool:
    if not number.is_finite():
        return False
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    if not number:
        return True
    zeros = next(n for n, digit in enumerate(reversed(digits)) if digit)
    return exponent + zeros >= -kind.scale and len(digits) + exponent <= kind.precision - kind.scale


def _plain(kind: Plain) -> Check:
    name = kind.name
    if name in _BITS:
        return _whole(name, _BITS[name])
    fits, wanted = _FITS[name]

    def check(value: object) -> Misfit | None:
        return None if fits(value) else _is(value, wanted)

    def check_float(value: object) -> Misfit | None:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return _is(value, name)
        return None if fits(value) else Misfit("", f"is more than {name} can hold, or a whole number it can't hold")

    def check_text(value: object) -> Misfit | None:
        if not isinstance(value, str):
            return _is(value, name if name == "string" else wanted)
        return None if fits(value) else Misfit("", f"is a string that is not {wanted}")

    return check if name == "boolean" else check_float if name in ("float", "double") else check_text


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _whole(name: str, bits: int) -> Check:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def check(value: object) -> Misfit | None:
        if type(value) is not int:
            return _is(value, name)
        return None if least <= value <= most else Misfit("", f"is beyond the {bits} bits of {name}")

    return check


def _is_double(value: Any) -> bool:
    """Return whether a number is one of a double: fractions are rounded, whole numbers are not."""
    with suppress(OverflowError):
        found = float(value)
        return math.isfinite(found) and (not isinstance(value, int) or int(found) == value)
    return False


def _is_float(value: Any) -> bool:
    return _is_double(value) and abs(value) <= _GREATEST_FLOAT and (type(value) is not int or abs(value) <= 1 << 24)


_GREATEST_FLOAT = 3.4028234663852886e38


def _is_text(value: str) -> bool:
    """Return whether a string is valid Unicode, without a half of a surrogate pair."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
).fullmatch


def _is_date(value: str) -> bool:
    with suppress(ValueError):
        return _DATE(value) is not None and date.fromisoformat(value) is not None
    return False


def _is_moment(value: str, *, zoned: bool) -> bool:
    found = _TIME(value) if len(value) < _LONG else None
    if found is None or (found[1] is None) is zoned:
        return False
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value)
        return not zoned or moment.astimezone(UTC) is not None
    return False


_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "boolean": (lambda value: isinstance(value, bool), "boolean"),
    "float": (_is_float, "float"),
    "double": (_is_double, "double"),
    "string": (_is_text, "valid Unicode"),
    "date": (_is_date, "a date such as 2026-01-31"),
    "timestamp": (
        lambda value: _is_moment(value, zoned=True),
        "a time with its zone, such as 2026-01-31T08:00:00+00:00",
    ),
    "timestamp_ntz": (
        lambda value: _is_moment(value, zoned=False),
        "a time without a zone, such as 2026-01-31T08:00:00",
    ),
}
