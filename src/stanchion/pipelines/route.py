"""The way of an item through the stations, on record in its headers.

x-way      [["raw", 1, 1790000000.1], ["clean", 2, 1790000003.2]]: the stations that it has left, with the attempts
           that each took and when the last of them began, by the store's clock; the newest 100
x-rounds   {"poll": 17}: how often it has left stations that it may come back to
x-forked   2: so many stops at the beginning of the way are those of the item that it was made of
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stanchion.stores.records.jobs import SECOND, JobRow

WAY, ROUNDS, FORKED = "x-way", "x-rounds", "x-forked"

KEPT = 100
"""So many stations, the newest, are kept of a way."""


class Stop(NamedTuple):
    """A station on the way of an item: how many attempts it took, and when the last one began (seconds since 1970)."""

    station: str
    attempts: int
    at: float


def way_of(headers: dict[str, Any]) -> list[Stop]:
    """Return the stations that an item has left, oldest first; what was written there by others is passed over."""
    way = headers.get(WAY)
    stops = way if isinstance(way, list) else []
    return [Stop(*stop) for stop in stops if isinstance(stop, list) and len(stop) == len(Stop._fields)]


def rounds_of(row: JobRow, station: str) -> int:
    """Return how often an item has left a station that it can come back to."""
    return _rounds(_headers(row)).get(station, 0) if row.headers else 0


def headers_after(row: JobRow, station: str, *, counting: bool, forking: bool) -> str:
    """Return the headers of an item that leaves a station; `counting`: it may come back; `forking`: as several."""
    headers = _headers(row)
    way = [*way_of(headers), Stop(station, row.attempts, (row.started_at or row.run_at) / SECOND)]
    headers[WAY] = way[-KEPT:]
    forked = len(way) if forking else headers.get(FORKED, 0)
    if forked:
        headers[FORKED] = max(0, forked - max(0, len(way) - KEPT))
    if counting:
        rounds = _rounds(headers)
        headers[ROUNDS] = {**rounds, station: rounds.get(station, 0) + 1}
    return json.dumps(headers, separators=(",", ":"))


def _headers(row: JobRow) -> dict[str, Any]:
    return json.loads(row.headers) if row.headers else {}


def _rounds(headers: dict[str, Any]) -> dict[str, int]:
    rounds = headers.get(ROUNDS)
    return rounds if isinstance(rounds, dict) else {}
