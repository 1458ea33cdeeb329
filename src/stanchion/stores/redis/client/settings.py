"""Queue settings in stored form: a hash of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from stanchion.stores.records.queues import QueueSettings

_DECLARED = "declared "
"""Prefix of the fields for declared settings, whose values are JSON."""


def stored_setting(name: str, value: Any) -> list[str]:
    """Return the fields and values of a setting in stored form."""
    if name == "declared":
        return [text for one, its in value.items() for text in (_DECLARED + one, json.dumps(its))]
    if value is None:
        return [name, ""]
    return [name, str(int(value)) if isinstance(value, bool) else str(value)]


def settings_in(queue: str, stored: Mapping[bytes, bytes]) -> QueueSettings:
    """Return the settings in the hash of a queue."""
    given = {name: kind(stored[name.encode()].decode()) for name, kind in _KINDS.items() if name.encode() in stored}
    declared = {name: value for name, value in stored.items() if name.startswith(_DECLARED.encode())}
    read = {name.decode().removeprefix(_DECLARED): json.loads(value) for name, value in declared.items()}
    return QueueSettings(queue, **given, declared=read)


def _unless_empty(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: kind(text) if text else None


_KINDS: dict[str, Callable[[str], Any]] = {
    "paused": lambda text: text == "1",
    "max_rate": _unless_empty(float),
    "max_running": _unless_empty(int),
    "lanes": int,
    "lanes_per_tenant": int,
    "history_ttl": float,
    "dead_letter": _unless_empty(str),
    "lease": float,
    "uses_lanes": lambda text: text == "1",
    "uses_slots": lambda text: text == "1",
    "expires": _unless_empty(float),
    "expires_with_jobs": lambda text: text == "1",
    "timeout": _unless_empty(float),
    "ordered": lambda text: text == "1",
    "ordered_by": _unless_empty(str),
}
