"""Numbers and durations in sentences."""

from __future__ import annotations

import shlex

_UNITS = (("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def spoken(seconds: float) -> str:
    """Return a duration in up to two units: 0.4 s, 45 s, 11 min 20 s, 2 h, 3 days 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    left, parts = int(seconds), list[str]()
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}{'s' if name == 'day' and count > 1 else ''}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def number(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things: 1 job, 1,246 jobs."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def command(words: str, *names: str) -> str:
    """Return a command of the shell with these names as its last arguments."""
    return " ".join(("stanchion", words, *map(shlex.quote, names)))
