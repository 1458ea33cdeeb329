"""Numbers and names of things, and commands, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

NAMED: Final = 3
"""Names that a sentence lists; more are counted."""


def number(count: int, one: str, many: str | None = None) -> str:
    """Return a number of things: 1 job, 1,246 jobs."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def named(names: Sequence[str]) -> str:
    """Return names, and the number of those left out: `a, b and c`; `a, b, c and 4,797 more`."""
    more = [f"{len(names) - NAMED:,} more"] if len(names) > NAMED else []
    *before, last = [*names[:NAMED], *more]
    return f"{', '.join(before)} and {last}" if before else last


def command(words: str, *names: str) -> str:
    """Return a command of the shell with these names as its last arguments."""
    return " ".join(("stanchion", words, *map(shlex.quote, names)))
