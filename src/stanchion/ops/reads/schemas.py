"""The schemas of queues, as operators see them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.schemas.kinds import Schema
from stanchion.schemas.stored import KIND, Stored
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings


def schemas_of(store: Store, queues: Sequence[QueueSettings]) -> dict[str, Schema]:
    """Return the schemas in force of those queues that have one that this release can read."""
    bases = {one.name: one.schema_after for one in queues if one.schema_after is not None}
    found: dict[str, Schema] = {}
    for value in store.values(KIND, list(bases)) if bases else ():
        with suppress(InvalidInput):  # a newer release has stored it
            schema = Stored(value.text, value.version, bases[value.name]).schema
            if schema is not None:
                found[value.name] = schema
    return found


def schema_json(schema: Schema | None) -> dict[str, Any] | None:
    """Return a schema ready for JSON."""
    if schema is None:
        return None
    fields = [{"name": one.name, "type": str(one.kind), "nullable": one.nullable} for one in schema.fields]
    return {"version": schema.version, "ddl": schema.ddl, "fields": fields}
