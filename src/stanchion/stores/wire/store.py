"""A store's capabilities, its listeners' signals, its queues, workers and managers, as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args, get_type_hints

from stanchion.errors import InvalidInput
from stanchion.stores.fields.queues import MERGED
from stanchion.stores.fields.queues import SETTINGS as STORED
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures
from stanchion.stores.records.queues import Counts, Head, QueueSettings, QueueStats, SemaphoreRow, Sizes, Stat
from stanchion.stores.records.workers import Beat, LaneRange, QueueTimes, WorkerRow
from stanchion.stores.wakeup.signs import Signs
from stanchion.stores.wire.codec import JSON, LIST, NAME_SET, NAMES, SECONDS, TUPLE, Codec, Part, one_of
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


LANE_RANGE: Final = Codec(LaneRange, pb.LaneRange)
TIMES: Final = Codec(QueueTimes, pb.QueueTimes, parts={"delays": TUPLE, "runs": TUPLE})
WORKER: Final = Codec(
    WorkerRow,
    pb.WorkerRow,
    parts={"queues": TUPLE, "heartbeat": SECONDS, "began": NAMES, "lanes": LANE_RANGE.many(), "times": TIMES.many()},
)
BEAT: Final = Codec(Beat, pb.BeatReply, parts={"cancelled": LIST})


QUEUE_FIGURES: Final = Codec(QueueFigures, pb.QueueFigures, parts={"lag": SECONDS})
RECEIVER_FIGURES: Final = Codec(ReceiverFigures, pb.ReceiverFigures, parts={"silent": SECONDS})
STATUS: Final = Codec(
    ManagerStatus, pb.StatusReply, parts={"queues": QUEUE_FIGURES.many(), "receivers": RECEIVER_FIGURES.many()}
)


SETTINGS: Final = Codec(
    QueueSettings,
    pb.QueueSettings,
    parts={one.name: SECONDS for one in STORED if one.is_time} | dict.fromkeys(MERGED, JSON),
)
SEMAPHORE: Final = Codec(SemaphoreRow, pb.Semaphore)
SIZES: Final = Codec(Sizes, pb.Sizes)
COUNTS: Final = Codec(Counts, pb.Counts)
HEAD: Final = Codec(Head, pb.Head)
STATS: Final = Codec(
    QueueStats,
    pb.QueueStats,
    parts={
        "states": SIZES.one,
        "items": SIZES.one,
        "totals": COUNTS.one,
        "heads": HEAD.many(),
    },
)


def _stats_fields(figures: Mapping[str, QueueStats]) -> list[dict[str, object]]:
    return [STATS.fields(one) | {"queue": queue} for queue, one in figures.items()]


STATS_BY_QUEUE: Final = Part(_stats_fields, lambda messages: {one.queue: STATS.taken(one) for one in messages})
"""The figures of queues, by name."""

_stat = one_of(*get_args(Stat))

STAT_NAMES: Final = Part(
    lambda fields: list(map(_stat.carry, fields)), lambda fields: frozenset(map(_stat.take, fields))
)
"""The names of fields of figures."""


def change_fields(changes: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the message for changes of settings, as `build` takes them; InvalidInput if unknown."""
    parts = SETTINGS.by_name
    if unknown := changes.keys() - parts.keys():
        raise InvalidInput(f"a queue has no settings {', '.join(sorted(unknown))}; it has {', '.join(parts)}")
    found = {}
    for name, value in changes.items():
        carried, part = parts[name]
        found[carried] = value if value is None or part is None else part.carry(value)
    return {"changes": found, "fields": list(found)}


def changes_in(message: pb.ConfigureRequest) -> dict[str, object]:
    """Return the changes of settings in a message. InvalidInput for settings of a newer release."""
    names = {carried: (name, part) for name, (carried, part) in SETTINGS.by_name.items()}
    if unknown := set(message.fields) - names.keys():
        raise InvalidInput(
            f"the manager does not know the settings {', '.join(sorted(unknown))} of queues; upgrade it first"
        )
    given, changes = message.changes, {}
    for carried in message.fields:
        name, part = names[carried]
        absent = given.DESCRIPTOR.fields_by_name[carried].has_presence and not given.HasField(carried)
        value = None if absent else getattr(given, carried)
        changes[name] = value if absent or part is None else part.take(value)
    return changes
