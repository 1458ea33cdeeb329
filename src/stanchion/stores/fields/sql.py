"""Parts of SQL statements, made from the table of fields, and the version of the schema; without SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from stanchion.stores.fields.jobs import BY_RULE, HOLDS, KINDS, LIMITS, LIVE, WAITS, Kind, Step, cleared
from stanchion.stores.records.jobs import JobRow, NewJob

VERSION: Final = 8
"""The number of steps in `migrations.MIGRATIONS`."""

LIVE_COLUMNS: Final = tuple(field.name for field in LIVE)
GIVEN: Final = tuple(name for name in NewJob._fields if name in LIVE_COLUMNS or name == "delay")
"""The fields of a new job that its columns depend on; the others concern jobs with the same key."""


def resets(step: Step, column: Callable[[str], str] = str) -> str:
    """Return the assignments that a step makes; `column`: writes the name of a column."""
    return emptied((name for name in cleared(step) if name in LIVE_COLUMNS), column)


def begun(
    lease_until: str = ":lease_until",
    started_at: str = ":started_at",
    worker: str = ":worker",
    attempts: str = "attempts + 1",
) -> dict[str, str]:
    """Return the terms of the columns that the begin of an attempt changes, under a token, in parameters."""
    return {
        "state": "'running'",
        "attempts": attempts,
        "token": ":token",
        "worker": worker,
        "delivery": ":delivery",
        "lease_until": lease_until,
        "started_at": started_at,
        "progress": "NULL",
    }


def changes(terms: Mapping[str, str]) -> str:
    """Return the assignments of these terms to their columns."""
    return ", ".join(f"{name} = {term}" for name, term in terms.items())


def assigned(names: Iterable[str]) -> str:
    """Return the assignments of parameters of the same names to these fields."""
    return ", ".join(f"{name} = :{name}" for name in names)


def emptied(names: Iterable[str], column: Callable[[str], str] = str) -> str:
    """Return the assignments that give these fields their defaults."""
    return ", ".join(f"{column(name)} = {literal(JobRow._field_defaults[name])}" for name in names)


def typed(names: Iterable[str], types: Mapping[Kind, str]) -> str:
    """Return the columns of fields with their types, as for a table or a function that returns one."""
    return ", ".join(f"{name} {types[KINDS[name]]}" for name in names)


def stored_as_given() -> dict[str, str]:
    """Return the terms that fill columns of a new job from its given fields, where they may be missing.

    `BY_RULE` are not among them.
    """
    defaults = NewJob._field_defaults
    absent = {f.name: literal(f.default) for f in LIVE if f.name not in NewJob._fields}
    given = {f.name: f"coalesce({f.name}, {defaults[f.name]})" for f in LIVE if defaults.get(f.name) is not None}
    return {name: term for name, term in {**absent, **given}.items() if name not in BY_RULE}


def _is_default(name: str) -> str:
    default = JobRow._field_defaults[name]
    return f"{name} IS NULL" if default is None else f"{name} = {default}"


HOLDS_NOTHING: Final = " AND ".join(map(_is_default, HOLDS))
"""The condition that a job holds nothing between its attempts."""


def missing(names: Iterable[str], table: str = "") -> str:
    """Return the condition that a job has none of these fields; `table`: its alias, with a dot."""
    return " AND ".join(f"{table}{name} IS NULL" for name in names)


def in_time(now: str, table: str = "") -> str:
    """Return the condition that the lease of a running job has not run out."""
    return f"({table}lease_until IS NULL OR {table}lease_until > {now})"


USES_SLOTS: Final = " OR ".join(f"{name} IS NOT NULL" for name in LIMITS)
"""The condition that a job needs slots, or a start of a rate."""


def literal(value: object) -> str:
    """Return a default as SQL."""
    return "NULL" if value is None else str(value).upper()


BUCKET: Final = {
    "tokens": Kind.REAL,
    **dict.fromkeys(("filled_at", "promised", "promised_again"), Kind.MICROS),
}
"""The fields of `rules.capacity.rate_limit.Bucket` that the row of a keyed rate keeps, with their kinds."""

STOPS_WAITING: Final = emptied((*WAITS, "waits_since"))
"""The assignments that end the wait of a job."""
