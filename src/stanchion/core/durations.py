"""Durations as people write them: `30`, `500ms`, `30s`, `5m`, `1h30m`, `7d`."""

from __future__ import annotations

import re

from stanchion.errors import InvalidInput

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
