"""A store's capabilities, and its listeners' signals, as messages."""

from __future__ import annotations

from typing import Final, get_args, get_type_hints

from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.wakeup.signs import Signs
from stanchion.stores.wire.codec import NAME_SET, Codec, one_of
from stanchion.stores.wire.messages import build, pb

CAPABILITIES: Final = Codec(
    Capabilities, pb.Capabilities, parts={"feed": one_of(*get_args(get_type_hints(Capabilities)["feed"]))}
)


def wake(signs: Signs, *, connected: bool) -> pb.Wake:
    """Return the message for signs. `connected`: see `Listener.connected`."""
    return build(
        pb.Wake,
        {
            "queues": None if signs.queues is None else NAME_SET.carry(signs.queues),
            "finished": None if signs.finished is None else NAME_SET.carry(signs.finished),
            "connected": connected,
        },
    )


def signs_in(message: pb.Wake) -> Signs:
    """Return the signs in a message."""
    return Signs(
        NAME_SET.take(message.queues) if message.HasField("queues") else None,
        NAME_SET.take(message.finished) if message.HasField("finished") else None,
    )
