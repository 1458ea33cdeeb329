"""Publications of staged jobs as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.wire.codec import Codec, Part
from stanchion.stores.wire.messages import pb
from stanchion.stores.wire.values import CHANGE

_ATTEMPTS: Final = Part(
    lambda attempts: [{"attempt": attempt, "jobs": jobs} for attempt, jobs in attempts],
    lambda messages: tuple((one.attempt, one.jobs) for one in messages),
)

FINISH: Final = Codec(Finish, pb.FinishAll)
PUBLICATION: Final = Codec(
    Publication,
    pb.Publication,
    parts={"attempts": _ATTEMPTS, "value": CHANGE.one, "finish": FINISH.one},
)
