"""Flows, their nodes and changes, as messages."""

from __future__ import annotations

from typing import Any, Final

from stanchion.errors import InvalidInput
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowChange, FlowNode, MemberEnd, OpenFlow, StopFlow
from stanchion.stores.wire.codec import Codec, Part
from stanchion.stores.wire.jobs import NEW_JOB
from stanchion.stores.wire.messages import pb

NODE: Final = Codec(FlowNode, pb.FlowNode)
END: Final = Codec(MemberEnd, pb.MemberEnd)

OPEN: Final = Codec(OpenFlow, pb.OpenFlow, parts={"nodes": NODE.many(), "jobs": NEW_JOB.many()})

_CHANGES: Final[dict[str, Codec[Any]]] = {
    "open": OPEN,
    "extend": Codec(ExtendFlow, pb.ExtendFlow, parts={"jobs": NEW_JOB.many(), "opens": OPEN.one}),
    "close": Codec(CloseFlow, pb.CloseFlow),
    "stop": Codec(StopFlow, pb.StopFlow),
}
_NAMES: Final = {codec.record: name for name, codec in _CHANGES.items()}


def _carry(change: FlowChange) -> dict[str, Any]:
    name = _NAMES[type(change)]
    return {name: _CHANGES[name].fields(change)}


def _take(message: Any) -> FlowChange:
    name = message.WhichOneof("kind")
    if name is None:
        raise InvalidInput("a message has a change of a flow of no kind that this release knows; upgrade stanchion")
    change: FlowChange = _CHANGES[name].taken(getattr(message, name))
    return change


CHANGES: Final = Part(lambda changes: list(map(_carry, changes)), lambda messages: tuple(map(_take, messages)))
"""Several changes of flows."""
