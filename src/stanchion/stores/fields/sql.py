"""Parts of SQL statements that the table of fields gives; texts, without SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from stanchion.stores.fields.jobs import KINDS, LIVE, Kind, Step, cleared
from stanchion.stores.records.jobs import NewJob

LIVE_COLUMNS: Final = tuple(field.name for field in LIVE)
STORED_BY_RULE: Final = ("state", "rank", "run_at", "enqueued_at", "waits_since")
"""Columns of a new job that a rule decides: `rules.jobs.created`."""
GIVEN: Final = tuple(name for name in NewJob._fields if name in LIVE_COLUMNS or name == "delay")
"""The fields of a new job that its columns depend on; the others concern jobs with the same key."""


def resets(step: Step, column: Callable[[str], str] = str) -> str:
    """Return the assignments that a step makes; `column`: writes the name of a column."""
    wanted = (name for name in cleared(step) if name in LIVE_COLUMNS)
    return ", ".join(f"{column(name)} = {literal(cleared(step)[name])}" for name in wanted)


def typed(names: Iterable[str], types: Mapping[Kind, str]) -> str:
    """Return the columns of fields with their types, as for a table or a function that returns one."""
    return ", ".join(f"{name} {types[KINDS[name]]}" for name in names)


def stored_as_given() -> dict[str, str]:
    """Return the terms that fill columns of a new job from its given fields, where they may be missing.

    `STORED_BY_RULE` are not among them.
    """
    defaults = NewJob._field_defaults
    absent = {f.name: literal(f.default) for f in LIVE if f.name not in NewJob._fields}
    given = {f.name: f"coalesce({f.name}, {defaults[f.name]})" for f in LIVE if defaults.get(f.name) is not None}
    return {name: term for name, term in {**absent, **given}.items() if name not in STORED_BY_RULE}


def literal(value: Any) -> str:
    """Return a default as SQL."""
    return "NULL" if value is None else str(value).upper()
