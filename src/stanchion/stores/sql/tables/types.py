"""Types of columns for the types of a schema, and their values as drivers take them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Float,
    Integer,
    Numeric,
    SmallInteger,
    String,
    Text,
    Uuid,
)
from sqlalchemy.dialects import mysql, postgresql

from stanchion.stores.sql.elements import AnyType
from stanchion.stores.sql.engine.schema import JobId, Long

Convert = Callable[[object], object]
"""Makes a JSON value, which is not null, a parameter."""

_PLAIN: Final[dict[str, AnyType]] = {
    "id": JobId,
    "boolean": Boolean(),
    "tinyint": SmallInteger(),
    "smallint": SmallInteger(),
    "int": Integer(),
    "bigint": BigInteger(),
    "float": Double(),
    "double": Double(),
    "string": Long,
    "date": Date(),
    "timestamp": DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql"),
    "timestamp_ntz": DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql"),
}
_NESTED: Final[AnyType] = JSON().with_variant(postgresql.JSONB(), "postgresql")
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_TEXTS = (String, Uuid, JSON)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def column_type(kind: str, database: str) -> AnyType:
    """Return the type of a new column."""
    if (found := _PLAIN.get(kind)) is not None:
        return found
    if (digits := _DECIMAL.fullmatch(kind)) is not None:
        # SQLite has floats only, with 15 digits.
        return Text() if database == "sqlite" else Numeric(int(digits[1]), int(digits[2]))
    return _NESTED


def takes(there: AnyType, kind: str, database: str) -> bool:
    """Return whether a column of this type keeps the values of a kind, or refuses one, but changes none."""
    if database == "sqlite":  # a column takes any value
        return True
    if kind == "boolean":
        return isinstance(there, Boolean) or (database == "mysql" and isinstance(there, Integer))
    if kind in _WHOLE:
        return isinstance(there, Integer | Numeric)
    if kind in ("float", "double"):
        return isinstance(there, Float if kind == "float" else Double) or _rounds_from(there) is None
    if (digits := _DECIMAL.fullmatch(kind)) is not None:
        scale = _rounds_from(there)
        return scale is None or scale >= int(digits[2])
    if kind == "date":
        return isinstance(there, Date)
    if kind.startswith("timestamp"):
        zoned = database != "mysql" and kind == "timestamp"
        return isinstance(there, DateTime) and (database == "mysql" or bool(there.timezone) is zoned)
    if kind in ("string", "id"):
        return isinstance(there, _TEXTS) and not isinstance(there, JSON)
    return isinstance(there, _TEXTS)


def _rounds_from(there: AnyType) -> float | None:
    """Return how many decimal places a column keeps; None: all of them."""
    return there.scale if isinstance(there, Numeric) else -math.inf


def converter(kind: str) -> Convert | None:
    """Return what makes values parameters of a driver that knows no JSON; None: they stay as they are."""
    if kind == "timestamp":
        return _in_utc
    if kind == "timestamp_ntz":
        return _local
    if kind.startswith("decimal"):
        return str
    if kind in _PLAIN:
        return None
    return _as_json


def _in_utc(value: object) -> str:
    return datetime.fromisoformat(str(value)).astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def _local(value: object) -> str:
    return datetime.fromisoformat(str(value)).isoformat(" ", "microseconds")


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
