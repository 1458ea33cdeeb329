"""Parts of the page of one queue: tenants, partitions, schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.schemas.kinds import Schema
from stanchion.schemas.stored import KIND, Stored
from stanchion.stores.ports import Partitions
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import QueueSettings

READY: Final = 5000
"""Maximum number of ready jobs read to count tenants, earliest due first."""

SHOWN: Final = 8


class Tenant(NamedTuple):
    """A tenant, its ready jobs, and their share in percent; the name is None for all others together."""

    name: str | None
    jobs: int
    share: float


class Tenants(NamedTuple):
    """The tenants with most ready jobs. `others`: number of further tenants; `whole`: all ready jobs were read."""

    rows: list[Tenant]
    others: int
    whole: bool


def tenants_of(store: Store, queue: str) -> Tenants:
    """Return who has ready jobs in a queue; no rows where no job has a tenant."""
    where = (Condition("queue", "=", queue), Condition("state", "=", "ready"))
    page = store.select(Query("live", where, order="due", columns=("tenant",), limit=READY))
    counts = Counter(name for (name,) in page.rows if name is not None)
    total, top = len(page.rows), counts.most_common(SHOWN)
    rows = [Tenant(name, jobs, 100 * jobs / total) for name, jobs in top]
    rest = total - sum(jobs for _, jobs in top)
    if rows and rest:
        rows.append(Tenant(None, rest, 100 * rest / total))
    return Tenants(rows, len(counts) - len(top), page.next is None)


def partitions_of(store: Store, queue: str) -> tuple[str, ...]:
    """Return the physical queues of a partitioned queue, otherwise an empty list. Reads nothing."""
    partitions = store.extension(Partitions)
    return () if partitions is None else partitions.partitions_of(queue)


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


def schema_json(schema: Schema | None) -> dict[str, object] | None:
    """Return a schema ready for JSON."""
    if schema is None:
        return None
    fields = [{"name": one.name, "type": str(one.kind), "nullable": one.nullable} for one in schema.fields]
    return {"version": schema.version, "ddl": schema.ddl, "fields": fields}
