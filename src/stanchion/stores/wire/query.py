"""Queries and their pages as messages."""

from __future__ import annotations

from typing import Any, Final, get_args

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Horizon, Of, Order, Page, Query
from stanchion.stores.wire.codec import NAME_SET, TUPLE, Codec, one_of
from stanchion.stores.wire.jobs import JOB
from stanchion.stores.wire.messages import pb
from stanchion.stores.wire.values import VALUE, list_fields, values_in

CONDITION: Final = Codec(Condition, pb.Condition, parts={"value": VALUE})
QUERY: Final = Codec(
    Query,
    pb.JobQuery,
    parts={
        "of": one_of(*get_args(Of)),
        "where": CONDITION.many(),
        "order": one_of(*get_args(Order)),
        "columns": TUPLE,
    },
)
HORIZON: Final = Codec(Horizon, pb.Horizon, parts={"writers": NAME_SET})


def page_fields(page: Page) -> dict[str, Any]:
    """Return the fields of the message for a page, as `build` takes them."""
    whole = bool(page.rows) and isinstance(page.rows[0], JobRow)
    return {
        "rows": [JOB.fields(row) for row in page.rows] if whole else (),
        "tuples": () if whole else [list_fields(row) for row in page.rows],
        "next": page.next,
        "horizon": page.horizon and HORIZON.fields(page.horizon),
    }


def page_in(message: pb.SelectReply) -> Page:
    """Return the page in a message."""
    return Page(
        [*map(JOB.taken, message.rows), *map(values_in, message.tuples)],
        message.next if message.HasField("next") else None,
        HORIZON.taken(message.horizon) if message.HasField("horizon") else None,
    )
