"""Plain jobs as columns, and in the storage form of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN_FIELDS = ("priority", "tenant", "max_attempts", "timeout")
"""Fields of prepared jobs that may differ from their defaults, in addition to id, queue and payload."""

SHARED_FIELDS = (*PLAIN_FIELDS, "headers")
"""Fields among them that may have one value for all jobs."""


@dataclass(frozen=True)
class PlainColumns:
    """New jobs of one queue, due immediately, without keys, slots, lanes and flows.

    `ids`, `payloads`: Arrow texts without nulls, ids in ascending order. `fixed`: values of SHARED_FIELDS, for all
    jobs; `varying`: of PLAIN_FIELDS, as Arrow columns.
    """

    queue: str
    ids: pa.Array
    payloads: pa.Array
    fixed: Mapping[str, Any] = field(default_factory=dict)
    varying: Mapping[str, pa.Array] = field(default_factory=dict)

    def slice(self, first: int, count: int) -> PlainColumns:
        """Return some of the jobs, without a copy."""
        varying = {name: column.slice(first, count) for name, column in self.varying.items()}
        ids, payloads = self.ids.slice(first, count), self.payloads.slice(first, count)
        return PlainColumns(self.queue, ids, payloads, self.fixed, varying)


class Prepared(NamedTuple):
    """Jobs of one queue in the storage form of their store. `first`: the id of the first one."""

    queue: str
    jobs: int
    first: str
    rows: bytes
