"""The route of an item through the stations, kept in its headers.

x-route    [["raw", 1, 1790000000.1], ["clean", 2, 1790000003.2]]: the last 100 stations that it has left, with the
           number of attempts at each, and when the last attempt started, by the store's clock
x-rounds   {"poll": 17}: how often it has left stations that it may return to
x-forked   2: the number of stops at the start of the route that belong to the item it was forked from
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from stanchion.stores.records.jobs import SECOND, JobRow

ROUTE, ROUNDS, FORKED = "x-route", "x-rounds", "x-forked"

LINEAGE = "x-lineage"
"""Of an item that a Spark station made of many: the station, the write, and the ranges of their ids."""

STOPS_MAX = 100
"""Stations kept of a route: the newest ones."""


class Stop(NamedTuple):
    """A station on an item's route: the number of attempts, and when the last one started (seconds since 1970)."""

    station: str
    attempts: int
    at: float


def route_of(headers: Mapping[str, object]) -> list[Stop]:
    """Return the stations that an item has left, oldest first. Malformed entries are ignored."""
    route = headers.get(ROUTE)
    stops = route if isinstance(route, list) else []
    return [Stop(*stop) for stop in stops if isinstance(stop, list) and len(stop) == len(Stop._fields)]


def rounds_of(row: JobRow, station: str) -> int:
    """Return how often an item has left a station that it can return to."""
    return _rounds(_headers(row)).get(station, 0) if row.headers else 0


def headers_after(row: JobRow, station: str, *, counting: bool, forking: bool) -> str:
    """Return the headers of an item that leaves a station. `counting`: it may return; `forking`: it becomes several."""
    stop = Stop(station, row.attempts, (row.started_at or row.run_at) / SECOND)
    return _headers_after(row.headers, stop, counting, forking)


@lru_cache(maxsize=256)
def _headers_after(text: str | None, stop: Stop, counting: bool, forking: bool) -> str:
    """Return the headers after a stop; items that were claimed together mostly have the same."""
    headers = json.loads(text) if text else {}
    route = [*route_of(headers), stop]
    headers[ROUTE] = route[-STOPS_MAX:]
    forked = len(route) if forking else headers.get(FORKED, 0)
    if forked:
        headers[FORKED] = max(0, forked - max(0, len(route) - STOPS_MAX))
    if counting:
        rounds = _rounds(headers)
        headers[ROUNDS] = {**rounds, stop.station: rounds.get(stop.station, 0) + 1}
    return json.dumps(headers, separators=(",", ":"))


def headers_at_entry(headers: str | None) -> str | None:
    """Return the headers of an item without its route."""
    kept = {
        name: value
        for name, value in (json.loads(headers) if headers else {}).items()
        if name not in (ROUTE, ROUNDS, FORKED)
    }
    return json.dumps(kept, separators=(",", ":")) if kept else None


def _headers(row: JobRow) -> dict[str, object]:
    return json.loads(row.headers) if row.headers else {}


def _rounds(headers: Mapping[str, object]) -> dict[str, int]:
    rounds = headers.get(ROUNDS)
    return rounds if isinstance(rounds, dict) else {}
