"""Instances of models, dataclasses or Pydantic's, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID


def is_model(kind: Any) -> bool:
    """Return whether this is a class of models."""
    return isinstance(kind, type) and (is_dataclass(kind) or is_pydantic(kind))


def is_pydantic(kind: type) -> bool:
    """Return whether this is a class of Pydantic's models; it need not be installed."""
    return hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_validate")


def plain_model(value: Any) -> Any:
    """Return an instance of a model as an object, its times as ISO text and its decimals as their digits.

    Raises TypeError for anything else, as JSON encoders ask.
    """
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def plain(value: Any) -> Any:
    """Return a value of a field as JSON can hold it; what is unknown here is left to the encoder."""
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return plain_model(value) if is_model(type(value)) else value
