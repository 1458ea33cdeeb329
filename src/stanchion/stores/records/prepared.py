"""Plain jobs as columns, and in the form in which a store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN_FIELDS = ("priority", "tenant", "max_attempts", "timeout")
"""The fields of prepared jobs that may have other values than their defaults, besides id, queue and payload."""

SHARED_FIELDS = (*PLAIN_FIELDS, "headers")
"""Those that may have one for all jobs."""


@dataclass(frozen=True)
class PlainColumns:
    """New jobs of one queue, due at once, without keys, slots, lanes and flows.

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
    """Jobs of one queue in the form in which their store keeps them. `first`: the id of the first one."""

    queue: str
    jobs: int
    first: str
    rows: bytes
