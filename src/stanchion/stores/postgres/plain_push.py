"""PostgreSQL's function for pushes by plain SQL."""

from __future__ import annotations

from sqlalchemy import Connection, text

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules.plain_push import NAME, OPTIONS, UNPRINTABLE
from stanchion.stores.sql.jobs.plain_push import statements

_OF_KIND = {
    Kind.NAME: "text",
    Kind.JSON: "jsonb",
    Kind.MICROS: "timestamp with time zone",
    Kind.SMALL: "integer",
    Kind.INT: "integer",
    Kind.REAL: "double precision",
}
_OPTIONS = tuple((one.name, _OF_KIND[one.kind]) for one in OPTIONS)
_PARAMETERS = (
    *(("queue", "text"), ("payload", "jsonb"), ("task", "text"), ("args", "jsonb")),
    *_OPTIONS,
    ("notify", "boolean"),
)
"""The parameters of the function, as the server spells them."""
_DEFAULTS = {name: NewJob._field_defaults[name] for name, _ in _OPTIONS}
_WITH_DEFAULTS = ",\n    ".join(
    f"{name} {kind} DEFAULT {'NULL' if _DEFAULTS[name] is None else _DEFAULTS[name]}" for name, kind in _OPTIONS
)
_SIGNATURE = ", ".join(f"{name} {kind}" for name, kind in _PARAMETERS)
_TYPES = ", ".join(kind for _, kind in _PARAMETERS)
_FUNCTION = f"{NAME}({_TYPES})"

_UNPRINTABLE = "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in UNPRINTABLE)
# With its owner's rights, the function is for users with a grant.
_RESERVE = f"REVOKE ALL ON FUNCTION {_FUNCTION} FROM PUBLIC"

_HERE = f"proname = '{NAME}' AND pronamespace = to_regnamespace(quote_ident(current_schema()))"
_FOUND = text(f"""
    SELECT CAST(CAST(oid AS regprocedure) AS text), pg_get_function_identity_arguments(oid) = :parameters
    FROM pg_proc WHERE {_HERE}
""")
# The function keeps the names of its schema and channel, also where the schema is renamed.
_WORKS = text(f"""
    SELECT 1 FROM pg_proc
    WHERE {_HERE} AND pg_get_function_identity_arguments(oid) = :parameters
        AND 'search_path=' || quote_ident(current_schema()) || ', pg_temp' = ANY (proconfig)
        AND strpos(prosrc, quote_literal(CAST(:channel AS text))) > 0
""")
_GRANTS = text(f"""
    SELECT DISTINCT 'GRANT EXECUTE ON FUNCTION {_FUNCTION} TO '
        || CASE WHEN allowed.grantee = 0 THEN 'PUBLIC' ELSE CAST(CAST(allowed.grantee AS regrole) AS text) END
    FROM pg_proc CROSS JOIN LATERAL aclexplode(proacl) AS allowed
    WHERE {_HERE} AND allowed.grantee <> proowner
""")


def is_made(connection: Connection, channel: str) -> bool:
    """Return True if the function is there, with these parameters, for these tables, and signals on this channel."""
    return bool(connection.execute(_WORKS, {"parameters": _SIGNATURE, "channel": channel}).all())


def push_routine(connection: Connection | None, channel: str) -> list[str]:
    """Return the statements that make or replace the function, which signals on this channel; its grants stay."""
    values = {"parameters": _WITH_DEFAULTS, "types": _TYPES, "channel": channel, "unprintable": _UNPRINTABLE}
    make = statements("stanchion.stores.postgres", '"', **values)
    found = [] if connection is None else _found(connection)
    if connection is None or not found:
        return [*make, _RESERVE]
    # CREATE OR REPLACE can't change the names and types of parameters.
    others = [f"DROP FUNCTION {other}" for other, same in found if not same]
    if len(others) < len(found):
        return [*others, *make]
    return [*others, *make, _RESERVE, *connection.execute(_GRANTS).scalars()]


def _found(connection: Connection) -> list[tuple[str, bool]]:
    return [(other, same) for other, same in connection.execute(_FOUND, {"parameters": _SIGNATURE})]
