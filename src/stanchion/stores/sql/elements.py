"""SQLAlchemy's generic types where statements are put together from columns of any type; options of its engine."""

from __future__ import annotations

from typing import Any, Required, TypeAlias, TypedDict

from sqlalchemy import Column, ColumnElement, CompoundSelect, Select
from sqlalchemy.types import TypeEngine

AnyColumn: TypeAlias = Column[Any]
"""A column of a table."""
AnyElement: TypeAlias = ColumnElement[Any]
"""An expression."""
AnyType: TypeAlias = TypeEngine[Any]
"""The type of a column or of a parameter."""
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"
"""A query."""
AnyUnion: TypeAlias = "CompoundSelect[*tuple[Any, ...]]"
"""A union of queries."""


class EngineOptions(TypedDict, total=False):
    """Options for `create_engine`."""

    connect_args: Required[dict[str, object]]
    pool_size: Required[int]
    max_overflow: Required[int]
    pool_timeout: Required[float]
    pool_reset_on_return: None
