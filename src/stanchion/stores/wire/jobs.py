"""Jobs, their leases and slots, claims and flows, as messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stanchion.errors import InvalidInput
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowChange, FlowNode, MemberEnd, OpenFlow, StopFlow
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, Lease, NewJob, Pushed, Redriven
from stanchion.stores.records.slots import Slot
from stanchion.stores.wire.codec import SECONDS, Codec, Part
from stanchion.stores.wire.messages import pb

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

NEW_JOB: Final = Codec(NewJob, pb.NewJob, parts=dict.fromkeys(("delay", "timeout", "expires", "key_ttl"), SECONDS))
PUSHED: Final = Codec(Pushed, pb.Pushed)
JOB: Final = Codec(JobRow, pb.Job, parts=dict.fromkeys(("timeout", "expires"), SECONDS))
JOB_REF: Final = Codec(JobRef, pb.JobRef)
LEASE: Final = Codec(Lease, pb.Held)
SLOT: Final = Codec(Slot, pb.Slot)

E = TypeVar("E", bound=Enum)


def results(kind: type[E], of: EnumTypeWrapper, prefix: str) -> Part:
    """Return the part of a list of results of an enumeration, with None where there is none.

    `of`: the protocol's enumeration, whose values are named like the values of `kind`, behind a prefix.
    """
    known: dict[E | None, int] = {one: of.Value(f"{prefix}_{one.name}") for one in kind} | {None: 0}
    back = {number: one for one, number in known.items()}

    def carry(states: Iterable[E | None]) -> list[int]:
        return [known[state] for state in states]

    def take(numbers: Sequence[int]) -> list[E | None]:
        try:
            return [back[number] for number in numbers]
        except KeyError as error:
            raise InvalidInput(
                f"the peer answers with a {of.DESCRIPTOR.name} {error}, which this release does not know; upgrade it"
            ) from None

    return Part(carry, take)


STATES: Final = results(JobState, pb.JobState, "JOB_STATE")
"""The states of jobs that calls return; None for an unknown job or a lost lease."""

REDRIVEN: Final = results(Redriven, pb.Redriven, "REDRIVEN")
"""What became of retried jobs."""


_LANES: Final = Part(
    lambda lanes: {"first": lanes[0], "last": lanes[1]},
    lambda message: (message.first, message.last),
)

_ASSIGNMENTS: Final = Part(
    lambda ids: [{"id": job, "worker": worker} for job, worker in ids],
    lambda messages: tuple((one.id, one.worker) for one in messages),
)

CLAIM: Final = Codec(
    Claim, pb.Claim, parts={"lease": SECONDS, "lanes": _LANES, "full": SLOT.many(), "ids": _ASSIGNMENTS}
)
CLAIMED: Final = Codec(Claimed, pb.ReserveReply, parts={"rows": JOB.many(list), "retry_in": SECONDS})


NODE: Final = Codec(FlowNode, pb.FlowNode)
END: Final = Codec(MemberEnd, pb.MemberEnd)

OPEN: Final = Codec(OpenFlow, pb.OpenFlow, parts={"nodes": NODE.many(), "jobs": NEW_JOB.many()})

_CHANGES: Final[dict[str, Codec[Any, Any]]] = {
    "open": OPEN,
    "extend": Codec(ExtendFlow, pb.ExtendFlow, parts={"jobs": NEW_JOB.many(), "opens": OPEN.one}),
    "close": Codec(CloseFlow, pb.CloseFlow),
    "stop": Codec(StopFlow, pb.StopFlow),
}
_NAMES: Final = {codec.record: name for name, codec in _CHANGES.items()}


def _carry(change: FlowChange) -> dict[str, object]:
    name = _NAMES[type(change)]
    return {name: _CHANGES[name].fields(change)}


def _take(message: pb.FlowChange) -> FlowChange:
    name = message.WhichOneof("kind")
    if name is None:
        raise InvalidInput("a message has a change of a flow of no kind that this release knows; upgrade stanchion")
    change: FlowChange = _CHANGES[name].taken(getattr(message, name))
    return change


CHANGES: Final = Part(lambda changes: list(map(_carry, changes)), lambda messages: tuple(map(_take, messages)))
"""Several changes of flows."""
