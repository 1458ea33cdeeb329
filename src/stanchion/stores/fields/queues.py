"""The settings of queues, from their types, and conditions on them as SQL. `QueueSettings` is the typed truth."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


class Setting(NamedTuple):
    """A stored setting of queues. One that is not `required` may be None."""

    name: str
    kind: Kind
    required: bool


def _setting(name: str, hint: Any) -> Setting:
    optional = NoneType in get_args(hint)
    kinds = [_KINDS[one] for one in _KINDS if one in (hint, get_origin(hint), *get_args(hint))]
    kind = kinds[0] if kinds else Kind.WORD
    return Setting(name, kind, not optional and kind is not Kind.JSON)


_KINDS: Final = {Mapping: Kind.JSON, bool: Kind.FLAG, int: Kind.INT, float: Kind.REAL, str: Kind.NAME}
_HINTS: Final = get_type_hints(QueueSettings)
SETTINGS: Final = tuple(_setting(name, _HINTS[name]) for name in STORED_SETTINGS)
"""The settings that a store keeps with the queue, its name first. Nothing declared is stored as none."""

BOUNDED: Final = "ordered OR max_rate IS NOT NULL OR max_running IS NOT NULL"
"""`QueueSettings.bounded`, as a condition on the row of a queue."""

LIMITED: Final = f"paused OR uses_lanes OR {BOUNDED}"
"""`QueueSettings.limited`, as a condition on the row of a queue."""

SHAPE: Final = f"""
    CASE
        WHEN paused OR {BOUNDED} OR uses_lanes AND uses_slots THEN 'limited'
        WHEN uses_lanes THEN 'lanes'
        WHEN uses_slots THEN 'slots'
        ELSE 'plain'
    END
"""
"""`QueueSettings.shape`, from the row of a queue."""
