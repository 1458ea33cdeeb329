"""What the stations make of one flight."""

from __future__ import annotations

from typing import Any, TypedDict

from flights.source import TABLES, Row, known, value

LATE = 60
"""A flight that arrives more than this many minutes late raises an alert."""

_WHOLE = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
    *("arr_delay", "flight", "air_time", "distance"),
)
_TEXT = ("carrier", "tailnum", "origin", "dest", "time_hour")
_COLUMNS = dict.fromkeys(_WHOLE, "bigint") | dict.fromkeys(_TEXT, "string")

SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in {**_COLUMNS, "cancelled": "boolean", "id": "string"}.items())
"""A flight, as Spark is told of it."""

Flight = dict[str, Any]


class Landed(TypedDict):
    """The result of a flight's job. Delays in minutes; None for a flight that never left, or never arrived."""

    flight: str
    carrier: str
    dep_delay: int | None
    arr_delay: int | None
    cancelled: bool
    joined: list[str]


def clean(row: Row) -> Flight:
    """Give a line of the file its types; a flight that never left is kept, and marked as cancelled."""
    flight: Flight = {name: value(row[name], type_) for name, type_ in _COLUMNS.items()}
    flight["cancelled"] = flight["dep_time"] is None
    flight["id"] = "{year}-{month:02}-{day:02} {carrier}{flight} {origin}-{dest}".format_map(flight)
    return flight


def enrich(flight: Flight) -> Flight:
    """Join a flight with its destination, its plane, and the weather at its departure; None where not known."""
    joined = {name: known()[name].get(tuple(flight[key] for key in table.key)) for name, table in TABLES.items()}
    return {**flight, **joined}


def landed(flight: Flight) -> Landed:
    """Return what is kept of a flight as the result of its job."""
    return {
        "flight": flight["id"],
        "carrier": flight["carrier"],
        "dep_delay": flight["dep_delay"],
        "arr_delay": flight["arr_delay"],
        "cancelled": flight["cancelled"],
        "joined": [name for name in TABLES if flight[name] is not None],
    }


def is_late(arr_delay: int | None) -> bool:
    """Tell whether a flight arrived over an hour late."""
    return arr_delay is not None and arr_delay > LATE
