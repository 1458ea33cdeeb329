"""The figures of managers, as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures
from stanchion.stores.wire.codec import SECONDS, Codec
from stanchion.stores.wire.messages import pb

QUEUE_FIGURES: Final = Codec(QueueFigures, pb.QueueFigures, parts={"lag": SECONDS})
RECEIVER_FIGURES: Final = Codec(ReceiverFigures, pb.ReceiverFigures, parts={"silent": SECONDS})
STATUS: Final = Codec(
    ManagerStatus, pb.StatusReply, parts={"queues": QUEUE_FIGURES.many(), "receivers": RECEIVER_FIGURES.many()}
)
