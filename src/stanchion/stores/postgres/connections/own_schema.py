"""The schema that a URL names for the tables (`?schema=`): its name, its setup, and queries for its tables."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.engine import URL

from stanchion.errors import InvalidInput
from stanchion.stores.sql.engine.schema import Qualified

# Names that need no quotes, in plain SQL too; at most 40 bytes, as the name of a channel, which has it, has at most 63.
_NAME: Final = re.compile(r"(?!pg_|information_schema$)[a-z][a-z0-9_]{0,39}")


def with_schema(url: URL) -> tuple[URL, str | None]:
    """Return a URL without its option schema, and the value; None if it has none."""
    schema = url.query.get("schema")
    if schema is None:
        return url, None
    if not isinstance(schema, str) or not _NAME.fullmatch(schema):
        raise InvalidInput(
            f"schema must be up to 40 lower-case letters, digits and underscores, begin with a letter, and not be one "
            f"of the server's, such as pg_catalog: it is {schema!r}"
        )
    return url.difference_update_query(["schema"]), schema


def steps(schema: str | None, *, new: bool) -> list[str]:
    """Return the statements that an operator runs first, in a session: for `new` tables, or for those there are."""
    if schema is None:
        return []
    return [*([_made(schema)] if new else []), f'SET search_path TO "{schema}"']


def enter(connection: Connection, schema: str | None, *, new: bool) -> None:
    """Let the rest of the transaction make and find tables in the schema; make it for `new` ones."""
    if schema is None:
        return
    if new:
        connection.exec_driver_sql(_made(schema))
    connection.exec_driver_sql(f'SET LOCAL search_path TO "{schema}"')


def _made(schema: str) -> str:
    # CREATE SCHEMA IF NOT EXISTS needs a right on the database, even where the schema is there.
    return f"""DO $$ BEGIN IF to_regnamespace('"{schema}"') IS NULL THEN CREATE SCHEMA "{schema}"; END IF; END $$"""


def has_tables(qualified: Qualified) -> TextClause:
    """Return the query whether the tables are there, and up to date enough to have an identity."""
    return text(f"""
        SELECT EXISTS (
            SELECT 1 FROM pg_attribute
            WHERE attrelid = to_regclass('{qualified("stanchion_meta")}') AND attname = 'identity'
        )
    """)


def writers(qualified: Qualified) -> TextClause:
    """Return the query for the open transactions that may write jobs.

    A transaction keeps these locks from before it writes, or reads to write, until it has ended; everybody may read
    them. Some steps read the clock, and wait for a row of another table before they write jobs: so all these tables
    count.
    """
    tables = ("jobs", "history", "queues", "slots", "flow_nodes", "values")
    relations = ", ".join(f"to_regclass('{qualified(f'stanchion_{table}')}')" for table in tables)
    return text(f"""
        SELECT DISTINCT virtualtransaction FROM pg_locks
        WHERE locktype = 'relation' AND mode IN ('RowShareLock', 'RowExclusiveLock')
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND relation IN ({relations})
    """)
