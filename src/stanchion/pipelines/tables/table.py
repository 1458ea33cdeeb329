"""`Table`: a table as the target of a station."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

from stanchion.core.checks import brief, checked_name
from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from stanchion.schemas.kinds import Schema

Form = Literal["pandas", "arrow", "polars"]
"""The library of a table of results."""

_NAME: Final = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,62}\.)?([A-Za-z_][A-Za-z0-9_]{0,62})").fullmatch
_OWN: Final = "stanchion_"
_FOLDER: Final = re.compile(r"(delta|parquet)://(/[^?#]*[^/?#])/*").fullmatch


@dataclass(frozen=True)
class Table:
    """A table that a station writes its results to: `to=Table("daily")`. Each item becomes a row.

    `address`: the name of a table in the store's own database, perhaps with a schema of it: `reports.daily`. It is
    written in the transaction that ends the item. Or a folder: `delta:///lake/daily` for a Delta table,
    `parquet:///lake/daily` for Parquet files. Items move there, and each is a row once, soon afterwards. `schema`: the
    fields, as DDL or a class; by default those of the class that the function of the station says it returns. `name`:
    by which a `Send` names the table; by default the last part of the address.
    """

    address: str
    schema: str | type[object] | Schema | None = field(default=None, compare=False)
    name: str = ""

    def __post_init__(self) -> None:
        if "://" in str(self.address):
            self._name_folder()
            return
        found = _NAME(str(self.address))
        if found is None or found[1].lower().startswith(_OWN):
            raise InvalidInput(
                f"a table is named by letters, digits and _, perhaps with its schema (daily, reports.daily), and not "
                f"like the tables of Stanchion; it can't be named {brief(self.address)}"
            )
        object.__setattr__(self, "name", self.name or found[1])
        checked_name(self.name, "the name of a table")

    def _name_folder(self) -> None:
        found = _FOLDER(self.address)
        if found is None:
            raise InvalidInput(
                f"a table in a folder has an address such as delta:///lake/daily or parquet:///lake/daily, with the "
                f"full path; {brief(self.address)} has another form"
            )
        object.__setattr__(self, "address", f"{found[1]}://{found[2]}")
        object.__setattr__(self, "name", self.name or found[2].rpartition("/")[2])
        if not _NAME(self.name) or "." in self.name:
            raise InvalidInput(
                f"the table in {self.address} needs a name of letters, digits and _: "
                f"Table({self.address!r}, name='daily')"
            )

    @property
    def in_folder(self) -> bool:
        """True if it is outside of the store's database, in a folder."""
        return "://" in self.address

    @property
    def folder(self) -> tuple[str, Path]:
        """The form and the folder of a table in a folder."""
        scheme, _, path = self.address.partition("://")
        return scheme, Path(unquote(path))


def how_written(table: Table) -> str:
    """Return how rows are written to a table, in words."""
    return f"to table {table.address}, in the transaction that ends the item"
