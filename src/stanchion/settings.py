"""Queue settings, checked at the door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.options import checked_name, seconds_of


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes to store; InvalidInput says what to mend."""
    changes = {}
    for name, value in settings.items():
        check = _CHECKS.get(name)
        if check is None:
            raise InvalidInput(f"unknown queue setting {name!r}; there are {', '.join(sorted(_CHECKS))}")
        changes[name] = check(name, value)
    return changes


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, not {value!r}")
    return value


def _rate(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e9:
        raise InvalidInput(f"{name} must be jobs per second, more than 0, or None for no limit, not {value!r}")
    return float(value)


def _count_or_none(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name} must be a whole number from 1 up, or None for no limit, not {value!r}")
    return value


def _one_lane(name: str, value: Any) -> int:
    if value != 1:
        raise InvalidInput(f"{name}={value!r}: this release has one lane per queue; leave it out")
    return 1


def _queue_or_none(name: str, value: Any) -> str | None:
    return None if value is None else checked_name(value, name)


def _lease(name: str, value: Any) -> float:
    seconds = seconds_of(value, name)
    if seconds == 0:
        raise InvalidInput(f"{name} must be more than 0 seconds")
    return seconds


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "paused": _flag,
    "max_rate": _rate,
    "max_running": _count_or_none,
    "lanes": _one_lane,
    "lanes_per_tenant": _one_lane,
    "history_ttl": lambda name, value: seconds_of(value, name),
    "dead_letter": _queue_or_none,
    "lease": _lease,
}
