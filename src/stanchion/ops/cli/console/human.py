"""Formatting times, numbers and text for people."""

from __future__ import annotations

from collections.abc import Iterable

from stanchion.core.text.printable import safe

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def age(seconds: float) -> str:
    """Return a rough duration: 3 s, 12 min, 2 h, 5 d."""
    seconds = max(0.0, seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * MINUTE:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < 48 * HOUR:
        return f"{seconds / HOUR:.0f} h"
    return f"{seconds / DAY:.0f} d"


def duration(seconds: float | None) -> str:
    """Return a measured duration: 0.4 ms, 12 ms, 3.2 s, 12 min; empty for None."""
    if seconds is None:
        return ""
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    return age(seconds)


def until(seconds: float) -> str:
    """Return a distance in time from now: `in 5 min` ahead, `5 min ago` behind."""
    return f"in {age(seconds)}" if seconds > 0 else f"{age(-seconds)} ago"


def rate(per_second: float | None) -> str:
    """Return a rate with suitable precision; a dash if it is not known yet."""
    if per_second is None:
        return "-"
    if per_second == 0:
        return "0"
    return f"{per_second:.1f}" if per_second < 100 else f"{per_second:,.0f}"


def per_second(count: int, seconds: float) -> float:
    """Return a rate, even for work that took no measurable time."""
    return count / max(seconds, 1e-9)


def one_line(text: str) -> str:
    """Return text with every run of white space as one space."""
    return safe(" ".join(text.split()))


def sparkline(values: Iterable[float]) -> str:
    """Return a row of little bars, the highest value full."""
    row = list(values)
    top = max(row, default=0) or 1
    return "".join("▁▂▃▄▅▆▇█"[round(value / top * 7)] for value in row)
