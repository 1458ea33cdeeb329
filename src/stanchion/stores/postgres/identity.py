"""By what a statement on PostgreSQL knows the database and the schema that it works in."""

from __future__ import annotations

IDENTITY = "identity || ' ' || CAST(tableoid AS text) || ' ' || current_database()"
"""A database that is made from a template has its identity too, and one with a copy of a schema has it twice."""

HERE = f"EXISTS (SELECT 1 FROM stanchion_meta WHERE {IDENTITY} = CAST(:identity AS text))"
"""The condition by which a statement in a caller's transaction does nothing anywhere but in the store's database."""
