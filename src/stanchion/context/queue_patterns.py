"""Queues given by name or by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stanchion.context.context import Context


class QueuePatterns:
    """Names of queues, and patterns where `*` matches any text.

    A name with `*` that the code gives to a queue is no pattern.
    """

    def __init__(self, context: Context, given: Iterable[str]) -> None:
        self.given = tuple(given)
        in_code = queues_in_code(context)
        self._patterns = {name: _matching(name) for name in self.given if "*" in name and name not in in_code}

    @property
    def open(self) -> bool:
        """True if more queues may come, as some are given by a pattern."""
        return bool(self._patterns)

    def cover(self, name: str) -> bool:
        """Return whether a queue is given, by its name or by a pattern."""
        return name in self.given or any(pattern.fullmatch(name) for pattern in self._patterns.values())

    def among(self, known: Iterable[str]) -> list[str]:
        """Return the names given and, in place of each pattern, the known queues that match it, by name."""
        known, found = sorted(known), dict[str, None]()
        for name in self.given:
            pattern = self._patterns.get(name)
            matching = [name] if pattern is None else [one for one in known if pattern.fullmatch(one)]
            found |= dict.fromkeys(matching)
        return list(found)


def queues_in_code(context: Context) -> set[str]:
    """Return the queues that the code names: of its tasks and stations, and declared ones."""
    return {*context.registry.own_queues(), *context.declared.settings}


def _matching(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
