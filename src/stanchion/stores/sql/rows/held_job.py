"""What the end of a running job needs to know of it."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from stanchion.stores.fields.jobs import TIES
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.sql.engine.schema import HELD_COLUMNS
from stanchion.stores.sql.rows.jobs import outline

ties_of = attrgetter(*TIES)
UNTIED = (None,) * len(TIES)
affects_others = attrgetter("order_key", "flow_node")
AFFECTS_NONE = (None, None)


class HeldJob(NamedTuple):
    """A running job with a valid lease: its holds, its flow position, and its claim.

    `bounded`: its queue limits the number of running jobs; set where the statement has read it.
    """

    id: str
    queue: str
    order_key: str | None
    limits: str | None
    flow_node: str | None
    items: int | None
    flow_index: int | None
    slots_held: int
    token: str
    delivery: str | None
    bounded: bool = False

    @property
    def tied(self) -> bool:
        """True if its end has consequences for other jobs."""
        return bool(ties_of(self) != UNTIED)

    @property
    def outline(self) -> JobRow:
        """The fields of the job that the consequences of its end depend on."""
        return outline(*self[: len(HELD_COLUMNS)])
