"""Keep Alembic's autogenerate away from the tables of a store in the same database; for `env.py`."""

from __future__ import annotations

from collections.abc import Mapping

from stanchion.stores.registry import sql_tables


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:  # noqa: ARG001
    """Return False for the tables of a store, in any schema, and True for all else.

    Pass it to `context.configure(include_name=...)`: Alembic then neither reads nor compares these tables.
    """
    return type_ != "table" or name not in sql_tables()
