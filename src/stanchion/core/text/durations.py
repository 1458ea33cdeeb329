"""Durations as people write them: `30`, `500ms`, `30s`, `5m`, `1h30m`, `7d`; and as they read them."""

from __future__ import annotations

import re
from typing import Final

from stanchion.errors import InvalidInput

UNKNOWN: Final = "\N{EN DASH}"
"""Stands for a figure that is not known."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def duration(text: str, what: str) -> float:
    """Return the seconds of `30`, `1.5`, `500ms`, `30s`, `5m`, `1h30m` or `7d`."""
    seconds, end = 0.0, 0
    rest = text.strip().lower()
    while end < len(rest) and (part := _PART.match(rest, end)):
        unit = part[2] or "s"
        if unit not in _UNITS or (not part[2] and part[0] != rest):
            break
        seconds += float(part[1]) * _UNITS[unit]
        end = part.end()
    if not rest or end < len(rest):
        raise InvalidInput(f"{what} must be a duration, such as 30, 500ms, 30s, 5m, 1h30m or 7d, not {text!r}")
    return seconds


def written(seconds: float) -> str:
    """Return a duration as people write it, which `duration` reads exactly: `7d`, `1h30m`, `0.5s`."""
    whole, rest = divmod(round(seconds * 1e6), 1_000_000)
    parts = []
    for unit, seconds_each in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        count, whole = divmod(whole, seconds_each)
        parts += [f"{count}{unit}"] if count else []
    if whole or rest or not parts:
        parts.append(f"{whole}.{rest:06}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def spelled(seconds: float | None) -> str:
    """Return a duration in at most two units: `42 ms`, `0.4 s`, `34 s`, `11 min 20 s`, `2 h 58 min`, `3 days 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    if whole < 2 * _DAY:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return _two(whole, _DAY, "days", _HOUR, "h")


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    first, rest = divmod(seconds, large)
    second = rest // small
    return f"{first} {large_name} {second} {small_name}" if second else f"{first} {large_name}"
