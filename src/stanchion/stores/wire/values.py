"""Values as messages: single ones of any type, and versioned ones."""

from __future__ import annotations

from typing import Any, Final

from stanchion.errors import InvalidInput
from stanchion.stores.records.slots import Slot
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.wire.codec import Codec, Part
from stanchion.stores.wire.jobs import SLOT
from stanchion.stores.wire.messages import pb

VERSIONED: Final = Codec(VersionedValue, pb.VersionedValue)
CHANGE: Final = Codec(ValueChange, pb.ValueChange)


def value_fields(value: Any) -> dict[str, Any]:
    """Return the fields of the message for a text, a number, a truth value, None, a slot, or several of these."""
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
        case Slot():
            return {"slot": SLOT.fields(value)}
        case tuple() | list():
            return {"list": list_fields(value)}
    raise InvalidInput(f"the protocol carries texts, numbers, truth values, slots and lists of these, not {value!r}")


def list_fields(values: Any) -> dict[str, Any]:
    """Return the fields of the message for several values."""
    return {"values": list(map(value_fields, values))}


def value_in(message: pb.Value) -> Any:
    """Return the value in a message; several of them as a tuple."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return None
    if kind == "list":
        return values_in(message.list)
    return SLOT.taken(message.slot) if kind == "slot" else getattr(message, kind)


def values_in(message: pb.ValueList) -> tuple[Any, ...]:
    """Return the values in a message."""
    return tuple(map(value_in, message.values))


VALUE: Final = Part(value_fields, value_in)
"""A single value."""
