"""What the stations make of one flight."""

from __future__ import annotations

from typing import Any, TypedDict

from stanchion.ops.demo.source import References, Row

LATE = 60
"""A flight that arrives more than this many minutes late raises an alert."""

_WHOLE = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
    *("arr_delay", "flight", "air_time", "distance"),
)
_TEXT = ("carrier", "tailnum", "origin", "dest", "time_hour")

JOINED = ("airport", "plane", "weather")
"""What a flight is joined with."""

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
    flight: Flight = {name: _whole(row[name]) for name in _WHOLE}
    flight |= {name: _text(row[name]) for name in _TEXT}
    flight["cancelled"] = flight["dep_time"] is None
    flight["id"] = "{year}-{month:02}-{day:02} {carrier}{flight} {origin}-{dest}".format_map(flight)
    return flight


def enrich(flight: Flight, known: References) -> Flight:
    """Join a flight with its destination, its plane, and the weather at its departure; None where not known."""
    return {
        **flight,
        "airport": _values(known.airports.get(flight["dest"])),
        "plane": _values(known.planes.get(flight["tailnum"] or "")),
        "weather": _values(known.weather.get((flight["origin"], flight["time_hour"]))),
    }


def landed(flight: Flight) -> Landed:
    """Return what is kept of a flight as the result of its job."""
    return {
        "flight": flight["id"],
        "carrier": flight["carrier"],
        "dep_delay": flight["dep_delay"],
        "arr_delay": flight["arr_delay"],
        "cancelled": flight["cancelled"],
        "joined": [name for name in JOINED if flight[name] is not None],
    }


def is_late(result: Landed) -> bool:
    """Tell whether the flight arrived over an hour late."""
    return result["arr_delay"] is not None and result["arr_delay"] > LATE


def _text(value: str) -> str | None:
    return None if value in ("", "NA") else value


def _whole(value: str) -> int | None:
    return None if value in ("", "NA") else int(value)


def _values(row: Row | None) -> dict[str, str | float | None] | None:
    return None if row is None else {name: _number_or_text(value) for name, value in row.items()}


def _number_or_text(value: str) -> str | float | None:
    try:
        return float(value)
    except ValueError:
        return _text(value)
