"""The table of the settings of queues, made from `QueueSettings`, and conditions on them as SQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import NoneType
from typing import Final, NamedTuple, get_args, get_origin, get_type_hints

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


class Setting(NamedTuple):
    """A setting of queues. One that is not `required` may be None."""

    name: str
    kind: Kind
    required: bool
    about: str = ""
    """A sentence about its effect; a setting without one is not for people."""
    absent: str = ""
    """The meaning of its absence, in a list."""
    restrains: str = ""
    """Why jobs have to be claimed from a queue that has it, as a clause without its subject."""
    held: bool = False
    """True if it also keeps other jobs out while one runs."""

    @property
    def is_time(self) -> bool:
        """True for a number of seconds."""
        return self.kind is Kind.REAL and self.name != "max_rate"


_KINDS: Final = {Mapping: Kind.JSON, bool: Kind.FLAG, int: Kind.INT, float: Kind.REAL, str: Kind.NAME}


def _setting(one: dataclasses.Field[object], hint: object) -> Setting:
    optional = NoneType in get_args(hint)
    kinds = [kind for of, kind in _KINDS.items() if of in (hint, get_origin(hint), *get_args(hint))]
    kind = kinds[0] if kinds else Kind.WORD
    told = {**one.metadata.get("shown", {}), **one.metadata.get("restraint", {})}
    return Setting(one.name, kind, not optional and kind is not Kind.JSON, **told)


_HINTS: Final = get_type_hints(QueueSettings)
_ALL: Final = tuple(_setting(one, _HINTS[one.name]) for one in dataclasses.fields(QueueSettings))
SETTINGS: Final = tuple(one for one in _ALL if one.name in STORED_SETTINGS)
"""The settings that a store keeps with the queue, its name first. Nothing declared is stored as none."""
MERGED: Final = tuple(one.name for one in SETTINGS if one.kind is Kind.JSON)
"""Settings whose changes replace only the keys that they name."""
SETTABLE: Final = tuple(one for one in _ALL if one.about)
"""The settings that people set."""

_RESTRAINING: Final = tuple(one for one in _ALL if one.restrains)
_DEFAULTS: Final = QueueSettings("")


def restraints(settings: QueueSettings, *, held: bool) -> list[str]:
    """Return why jobs have to be claimed from a queue before they may run, as clauses without their subject.

    `held`: for settings by which a job keeps others out while it runs; else for the other ones.
    """
    return [
        one.restrains
        for one in _RESTRAINING
        if one.held == held and getattr(settings, one.name) != getattr(_DEFAULTS, one.name)
    ]


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
