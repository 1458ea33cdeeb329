"""The limits of a job: its semaphores and its keyed rate."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple


class Rate(NamedTuple):
    """At most `per_second` starts of jobs that share `name`."""

    name: str
    per_second: float


class Limits(NamedTuple):
    """Semaphores that a job must hold, by name, and its rate."""

    semaphores: tuple[str, ...] = ()
    rate: Rate | None = None


@lru_cache(maxsize=65_536)
def limits_in(text: str | None) -> Limits:
    """Return the limits stored with a job."""
    if text is None:
        return Limits()
    stored = json.loads(text)
    rate = stored.get("rate")
    return Limits(tuple(stored.get("hold", ())), None if rate is None else Rate(*rate))


def limits_text(limits: Limits) -> str | None:
    """Return limits in the form stored with a job."""
    stored: dict[str, Any] = {}
    if limits.semaphores:
        stored["hold"] = sorted(set(limits.semaphores))
    if limits.rate is not None:
        stored["rate"] = list(limits.rate)
    return json.dumps(stored, separators=(",", ":"), ensure_ascii=False) if stored else None
