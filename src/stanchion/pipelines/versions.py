"""The version of an item: which of two items of the same input is the newer one.

Kept in the header of copies that replays and backfills enqueue:

x-input    [1790000000000000, 1790086400000000]: when the input of the pipeline came, and when it was last run again, by
           the store's clock in microseconds
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.trail import stops_of

INPUT: Final = "x-input"


class Version(NamedTuple):
    """The version of an item, compared in order: of a later input, or of the same one run again later, is newer.

    `came_at`: when the input came; `again_at`: when the replay or backfill began that runs it again, 0 if none does.
    """

    came_at: int
    again_at: int = 0


def version_of(row: JobRow) -> Version:
    """Return the version of an item; all that were split from one input have the version of that input."""
    told = (json.loads(row.headers) if row.headers else {}).get(INPUT)
    if isinstance(told, list) and len(told) == len(Version._fields) and all(type(one) is int for one in told):
        return Version(*told)
    return Version(stops_of(row)[0].entered_at)


def with_version(headers: str | None, version: Version) -> str:
    """Return the headers of a copy, with its version."""
    kept = json.loads(headers) if headers else {}
    return json.dumps({**kept, INPUT: version}, separators=(",", ":"))
