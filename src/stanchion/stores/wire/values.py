"""Values, queries and publications of staged jobs as messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Ending, Extend, Progress
from stanchion.stores.records.query import Condition, Horizon, Of, Order, Page, Query
from stanchion.stores.records.slots import Slot
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.wire.codec import NAME_SET, TUPLE, Codec, Fields, Part, one_of
from stanchion.stores.wire.jobs import JOB, SLOT
from stanchion.stores.wire.messages import pb
from stanchion.stores.wire.outcomes import OUTCOMES

VERSIONED: Final = Codec(VersionedValue, pb.VersionedValue)
CHANGE: Final = Codec(ValueChange, pb.ValueChange)


def value_fields(value: object) -> dict[str, object]:
    """Return the fields of the message for None, a text, number, truth value, slot or chunk, or several of these."""
    match value:
        case None:
            return {}
        case bool():
            return {"flag": value}
        case str():
            return {"text": str(value)}
        case int():
            return {"number": value}
        case float():
            return {"real": value}
        case bytes():
            return {"chunk": value}
        case Slot():
            return {"slot": SLOT.fields(value)}
        case tuple() | list():
            return {"list": list_fields(value)}
    raise InvalidInput(
        f"the protocol carries texts, numbers, truth values, slots, chunks and lists of these, not {value!r}"
    )


def list_fields(values: Iterable[object]) -> dict[str, object]:
    """Return the fields of the message for several values."""
    return {"values": list(map(value_fields, values))}


def value_in(message: pb.Value) -> object:
    """Return the value in a message; several of them as a tuple."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return None
    if kind == "list":
        return values_in(message.list)
    return SLOT.taken(message.slot) if kind == "slot" else getattr(message, kind)


def values_in(message: pb.ValueList) -> tuple[object, ...]:
    """Return the values in a message."""
    return tuple(map(value_in, message.values))


VALUE: Final = Part(value_fields, value_in)
"""A single value."""


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


def page_fields(page: Page) -> Fields:
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


_ATTEMPTS: Final = Part(
    lambda attempts: [{"attempt": attempt, "jobs": jobs} for attempt, jobs in attempts],
    lambda messages: tuple((one.attempt, one.jobs) for one in messages),
)


def _endings(messages: Iterable[pb.Outcome]) -> tuple[Ending, ...]:
    found = OUTCOMES.take(messages)
    if any(isinstance(one, (Extend, Progress)) for one in found):
        raise InvalidInput("what finishes a batch ends its jobs; renew leases by another call")
    return tuple(found)


FINISH: Final = Codec(Finish, pb.FinishAll, parts={"ends": Part(OUTCOMES.carry, _endings)})
PUBLICATION: Final = Codec(
    Publication,
    pb.Publication,
    parts={"attempts": _ATTEMPTS, "value": CHANGE.one, "finish": FINISH.one},
)
