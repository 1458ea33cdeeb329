"""Numbers of things, and commands, in sentences."""

from __future__ import annotations

import shlex


def number(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things: 1 job, 1,246 jobs."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def command(words: str, *names: str) -> str:
    """Return a command of the shell with these names as its last arguments."""
    return " ".join(("stanchion", words, *map(shlex.quote, names)))
