"""Workers and the answers to their heartbeats, as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.records.workers import Beat, LaneRange, QueueTimes, WorkerRow
from stanchion.stores.wire.codec import LIST, NAMES, SECONDS, TUPLE, Codec
from stanchion.stores.wire.messages import pb

LANE_RANGE: Final = Codec(LaneRange, pb.LaneRange)
TIMES: Final = Codec(QueueTimes, pb.QueueTimes, parts={"delays": TUPLE, "runs": TUPLE})
WORKER: Final = Codec(
    WorkerRow,
    pb.WorkerRow,
    parts={"queues": TUPLE, "heartbeat": SECONDS, "began": NAMES, "lanes": LANE_RANGE.many(), "times": TIMES.many()},
)
BEAT: Final = Codec(Beat, pb.BeatReply, parts={"cancelled": LIST})
