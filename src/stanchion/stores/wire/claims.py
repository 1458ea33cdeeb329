"""Claims, and the claimed jobs, as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.wire.codec import SECONDS, Codec, Part
from stanchion.stores.wire.jobs import JOB, SLOT
from stanchion.stores.wire.messages import pb

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
