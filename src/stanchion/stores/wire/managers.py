"""The figures of managers, as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures
from stanchion.stores.wire.codec import SECONDS, Codec
from stanchion.stores.wire.messages import pb

_QUEUE: Final = Codec(QueueFigures, pb.QueueFigures, parts={"lag": SECONDS})
_RECEIVER: Final = Codec(ReceiverFigures, pb.ReceiverFigures, parts={"silent": SECONDS})
STATUS: Final = Codec(ManagerStatus, pb.StatusReply, parts={"queues": _QUEUE.many(), "receivers": _RECEIVER.many()})
