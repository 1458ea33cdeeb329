"""The schema of a queue in the store: a versioned value, and the queue's setting `schema_after`.

    1. if the queue has no `schema_after`: set it to the version that the value has now, 0 without one
    2. the value, by compare-and-set: its version is the version of the schema

The schema is in force from the first change after that version. So processes that read the queue's settings know of
its schema, and a later queue of the same name does not inherit the schema of a deleted one. A process that dies after 1
leaves a queue without a schema.
"""

from __future__ import annotations

from typing import NamedTuple

from stanchion.errors import InvalidInput, SchemaRefused
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.evolution import Refused, merged
from stanchion.schemas.kinds import Schema
from stanchion.stores.protocol import Store

KIND = "schema"
"""The kind of the values."""

_NONE = ""
"""The text of a value for no schema."""


class Stored(NamedTuple):
    """Stored schema of a queue. `version`: of the value; `after`: the queue's `schema_after`."""

    text: str
    version: int
    after: int | None

    @property
    def is_in_force(self) -> bool:
        """True if the queue has a schema."""
        return self.after is not None and self.version > self.after and self.text != _NONE

    @property
    def schema(self) -> Schema | None:
        """The schema in force, or None. Raises InvalidInput for one that this release can't read."""
        return Schema(struct_of(self.text), self.version) if self.is_in_force else None


def stored_schema(store: Store, queue: str) -> Stored:
    """Return the stored schema of a queue."""
    # The value first: if `schema_after` is not set afterwards, no process has changed the value since it was read.
    value = next(iter(store.values(KIND, [queue])), None)
    settings = next(iter(store.queues([queue])), None)
    after = None if settings is None else settings.schema_after
    return Stored("", 0, after) if value is None else Stored(value.text, value.version, after)


def declared_in(found: Stored, queue: str, schema: Schema) -> Schema | None:
    """Return the schema to put in force for a declared one; None: that which is in force covers it.

    Raises SchemaRefused if it does not go together with that.
    """
    before = found.schema
    if before is None:
        return schema
    try:
        both = merged(before.struct, schema.struct)
    except Refused as refused:
        raise SchemaRefused(queue, before.version, refused.path, refused.why) from None
    return None if both == before.struct else Schema(both)


def declare(store: Store, queue: str, schema: Schema) -> Schema:
    """Put a declared schema in force, where it adds something; return the one in force. Raises SchemaRefused."""
    while True:
        found = stored_schema(store, queue)
        new = declared_in(found, queue, schema)
        if new is None:
            assert found.schema is not None  # noqa: S101 - it covers the declared one
            return found.schema
        _change(store, queue, found, new.ddl)


def check_declared(store: Store, queue: str, schema: Schema) -> None:
    """Raise InvalidInput unless the stored schema covers a declared one: in a transaction, it can't be changed."""
    if declared_in(stored_schema(store, queue), queue, schema) is not None:
        raise InvalidInput(
            f"queue {queue!r} has another schema in the store than the code declares, and a transaction can't change "
            f"that: call app.setup(), or use the queue once outside of a transaction, and push then"
        )


def replace(store: Store, queue: str, schema: Schema | None) -> None:
    """Put a schema in force, whatever was before; None: the queue has none any more."""
    while True:
        found = stored_schema(store, queue)
        if (schema is None and not found.is_in_force) or _change(store, queue, found, schema.ddl if schema else _NONE):
            return


def _change(store: Store, queue: str, found: Stored, text: str) -> bool:
    """Write the value; return False if another process has written it since it was read."""
    if found.after is None:
        store.configure(queue, {"schema_after": found.version})
    elif found.text == text and found.is_in_force:
        return True
    return store.compare_and_set(KIND, queue, text, found.version)
