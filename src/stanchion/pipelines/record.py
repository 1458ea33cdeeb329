"""The stations of a pipeline as stored for others, who have not its code: one versioned value for each pipeline.

A process stores what its code declares before it pushes or reserves; the process that began last is right.
"""

from __future__ import annotations

import json
from typing import Final, Literal, NamedTuple

from stanchion.stores.protocol import Store

KIND: Final = "pipeline"

Engine = Literal["workers", "spark", "both"]
"""The engine of a station: `both` means either."""


class StationRecord(NamedTuple):
    """A station: the stations it sends to, whether items enter there, its engine, its expectations, its tables.

    `expectations`: conditions, and the consequences for items that fail one. `tables`: to which it writes rows.
    `writes`: of the station that a table in a folder is, the address of the table.
    """

    name: str
    to: tuple[str, ...] = ()
    entry: bool = False
    engine: Engine = "workers"
    expectations: tuple[tuple[str, str], ...] = ()
    tables: tuple[str, ...] = ()
    writes: str | None = None

    @property
    def ends(self) -> bool:
        """True if items end there with a result."""
        return not (self.to or self.tables)


class PipelineRecord(NamedTuple):
    """A pipeline: its stations, in the order of their declaration."""

    name: str
    stations: tuple[StationRecord, ...]

    def queue(self, station: str) -> str:
        """Return the queue of a station."""
        return f"{self.name}.{station}"

    def before(self, station: str) -> list[str]:
        """Return the stations that send to one."""
        return [one.name for one in self.stations if station in one.to]

    @property
    def text(self) -> str:
        """The text of the value."""
        return json.dumps({"stations": self.stations}, separators=(",", ":"))


def recorded(store: Store) -> list[PipelineRecord]:
    """Return the stored pipelines, by name."""
    return [PipelineRecord(value.name, _stations(value.text)) for value in store.values(KIND)]


def _stations(text: str) -> tuple[StationRecord, ...]:
    """Return the stations in a text; fields of newer releases are ignored, and fields missing in older ones default."""
    rows = json.loads(text)["stations"]
    records = (StationRecord(*row[: len(StationRecord._fields)]) for row in rows)
    return tuple(
        one._replace(
            to=tuple(one.to),
            expectations=tuple((text, on_fail) for text, on_fail in one.expectations),
            tables=tuple(one.tables),
        )
        for one in records
    )
