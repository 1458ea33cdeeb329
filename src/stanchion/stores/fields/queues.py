"""The settings of queues, from their types, and conditions on them as SQL. `QueueSettings` is the typed truth."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


class Setting(NamedTuple):
    """A setting of queues. One that is not `required` may be None."""

    name: str
    kind: Kind
    required: bool
    about: str = ""
    """What it does; without a sentence, people do not set it."""
    absent: str = ""
    """What it means that there is none, in a list."""

    @property
    def is_time(self) -> bool:
        """True for a number of seconds."""
        return self.kind is Kind.REAL and self.name != "max_rate"


_ABOUT: Final = {
    "paused": ("No job starts; running ones finish.",),
    "max_rate": (
        "Jobs started a second, by all processes together. Jobs that are due wait for their second.",
        "no limit",
    ),
    "max_running": ("Jobs that run at the same time, in all processes. Running ones finish.", "no limit"),
    "lanes": ("Lines of jobs by tenant; workers take from them in turn.",),
    "lanes_per_tenant": ("Lanes over which the jobs of one tenant are spread.",),
    "lease": ("How long a consumer without heartbeats holds a job, from the next reservation.",),
    "timeout": ("Longest run of an attempt, for jobs whose task names none.", "none of its own"),
    "dead_letter": (
        "The queue that receives jobs when they die; without one they stay in history.",
        "none: kept as dead",
    ),
    "history_ttl": ("How long finished jobs are kept. A shorter time soon deletes older jobs for good.",),
    "expires": ("Time without use after which the queue is deleted, with its history.", "never"),
    "expires_with_jobs": ("It is also deleted with the jobs in it.",),
    "ordered": ("One job at a time, in order.",),
    "ordered_by": ("What becomes the order key of jobs without one.",),
    "partitions": ("Physical queues over which new jobs are spread.",),
}
_KINDS: Final = {Mapping: Kind.JSON, bool: Kind.FLAG, int: Kind.INT, float: Kind.REAL, str: Kind.NAME}


def _setting(name: str, hint: Any) -> Setting:
    optional = NoneType in get_args(hint)
    kinds = [_KINDS[one] for one in _KINDS if one in (hint, get_origin(hint), *get_args(hint))]
    kind = kinds[0] if kinds else Kind.WORD
    return Setting(name, kind, not optional and kind is not Kind.JSON, *_ABOUT.get(name, ()))


_ALL: Final = tuple(_setting(name, hint) for name, hint in get_type_hints(QueueSettings).items())
SETTINGS: Final = tuple(one for one in _ALL if one.name in STORED_SETTINGS)
"""The settings that a store keeps with the queue, its name first. Nothing declared is stored as none."""
MERGED: Final = tuple(one.name for one in SETTINGS if one.kind is Kind.JSON)
"""The settings of which a change replaces only the keys that it names."""
SETTABLE: Final = tuple(one for one in _ALL if one.about)
"""The settings that people set."""

BOUNDED: Final = "ordered OR max_rate IS NOT NULL OR max_running IS NOT NULL"
"""`QueueSettings.bounded`, as a condition on the row of a queue."""

LIMITED: Final = f"paused OR uses_lanes OR {BOUNDED}"
"""`QueueSettings.limited`, as a condition on the row of a queue."""

CAPPED: Final = """
    max_running IS NOT NULL AND max_rate IS NULL AND NOT (paused OR ordered OR uses_lanes OR uses_slots)
"""
"""`QueueSettings.capped`, as a condition on the row of a queue."""

SHAPE: Final = f"""
    CASE
        WHEN paused OR {BOUNDED} OR uses_lanes AND uses_slots THEN 'limited'
        WHEN uses_lanes THEN 'lanes'
        WHEN uses_slots THEN 'slots'
        ELSE 'plain'
    END
"""
"""`QueueSettings.shape`, from the row of a queue."""
