"""Which entries of the audit log a URL or a command asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from stanchion.core.times import micros
from stanchion.ops.audit import Wanted
from stanchion.ops.reads.filters import time_of


class AuditFilter(NamedTuple):
    """Conditions as they are given; empty ones hold for all. `since`, `until`: see `JobFilter`."""

    who: str = ""
    act: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read the values of a URL."""
        return cls(*(given.get(name, "").strip() for name in cls._fields))

    def wanted(self, now: int) -> Wanted:
        """Return the entries that are meant. Raises InvalidInput for a wrong time."""
        since, until = (micros(time_of(text, now)) if text else 0 for text in (self.since, self.until))
        return Wanted(self.who, self.act, since, until)
