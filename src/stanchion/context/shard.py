"""Shuffle shards, the lanes of a tenant by its name; and the lanes of jobs in none."""

from __future__ import annotations

import re

from stanchion.core.names.hashing import shuffle_shard
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import UNLANED

__all__ = ["MAX_LANES", "shown_lane", "shuffle_shard", "stored_range"]

MAX_LANES = 1024


def shown_lane(lane: int) -> int | None:
    """Return a stored lane as the API shows it: None for jobs stored before the queue had lanes."""
    return None if lane == UNLANED else lane


def stored_range(lanes: object) -> tuple[int, int]:
    """Return the first and the last lane. A range with lane 0 includes jobs in no lane."""
    if not isinstance(lanes, range) or lanes.step != 1 or not 0 <= lanes.start < lanes.stop <= MAX_LANES:
        raise InvalidInput(
            f"lanes must be a range without gaps within 0 to {MAX_LANES - 1}, such as range(0, 16), not {lanes!r}"
        )
    return (UNLANED if lanes.start == 0 else lanes.start), lanes.stop - 1


def range_in(text: str) -> range:
    """Return the range of lanes in a text: `0-15`, `16-` for all from 16 on, or `3`. Raises InvalidInput."""
    found = _RANGE.fullmatch(text)
    lanes = range(0)
    if found is not None:
        first, to, last = found.groups()
        lanes = range(int(first), int(last) + 1 if last else MAX_LANES if to else int(first) + 1)
    if not lanes or lanes.stop > MAX_LANES:
        raise InvalidInput(f"lanes must be a range within 0 to {MAX_LANES - 1}, such as 0-15, or 16-, not {text!r}")
    return lanes


_RANGE = re.compile(r"\s*(\d{1,4})\s*(?:(-)\s*(\d{1,4})?)?\s*", re.ASCII)
