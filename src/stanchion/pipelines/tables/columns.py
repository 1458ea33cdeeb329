"""Columns of Arrow in the types of a schema, made of values as JSON or a database has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from stanchion.core.chunks.arrow import pa
from stanchion.errors import InvalidInput
from stanchion.schemas.kinds import Array, Decimals, Kind, Map, Plain, Struct
from stanchion.schemas.typed_columns import arrow_type


def column_of(kind: Kind, values: Sequence[object]) -> pa.Array:
    """Return values of JSON, or of a database, as a column of a type. Raises InvalidInput if one does not fit."""
    made = _maker(kind)
    try:
        return pa.array([None if one is None else made(one) for one in values], arrow_type(kind))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"a result does not fit the type {kind} that the function returns now: {error}; read it as it is, with "
            f"app.queue(...).history()"
        ) from None


def _maker(kind: Kind) -> Callable[[object], object]:
    """Return what makes a value for Arrow of one that is not null."""
    match kind:
        case Plain("date"):
            return lambda value: value if isinstance(value, date) else date.fromisoformat(str(value))
        case Plain("timestamp"):
            return lambda value: _moment(value, UTC)
        case Plain("timestamp_ntz"):
            return lambda value: _moment(value, None)
        case Plain("boolean"):
            return bool
        case Plain("string"):
            return str
        case Decimals():
            return lambda value: Decimal(str(value))
        case Array(of):
            return _listed(_maker(of))
        case Map(of):
            return _paired(_maker(of))
        case Struct(fields):
            return _fields({field.name: _maker(field.kind) for field in fields})
    return lambda value: value


def _moment(value: object, zone: object) -> datetime:
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if zone is None:
        return found.replace(tzinfo=None)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _json(value: object) -> object:
    """Return a nested value, which some databases have as text."""
    return json.loads(value) if isinstance(value, str) else value


def _listed(made: Callable[[object], object]) -> Callable[[object], object]:
    def make(value: object) -> object:
        found = _json(value)
        return [None if one is None else made(one) for one in found] if isinstance(found, list) else found

    return make


def _paired(made: Callable[[object], object]) -> Callable[[object], object]:
    def make(value: object) -> object:
        found = _json(value)
        if not isinstance(found, dict):
            return found
        return [(key, None if one is None else made(one)) for key, one in found.items()]

    return make


def _fields(made: dict[str, Callable[[object], object]]) -> Callable[[object], object]:
    def make(value: object) -> object:
        found = _json(value)
        if not isinstance(found, dict):
            return found
        return {name: None if found.get(name) is None else one(found[name]) for name, one in made.items()}

    return make
