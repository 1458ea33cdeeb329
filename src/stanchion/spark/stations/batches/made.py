"""What the function of a Spark station returned: DataFrames by target, and their rows as they are settled.

job_id    of the item
level     how many stations it has passed in this batch
to        its target, "" for an end; null of an item that the function did not get
payload   the row as JSON
error     why the item has failed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.tables import ERROR
from stanchion.pipelines.station import Station
from stanchion.spark.stations.batches.item_rows import ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Made:
    """The DataFrames of a station by target, "" for an end. `moved`: rows with ids of items; `new`: other rows.

    `fields`: the columns that the function got.
    """

    station: Station
    fields: Sequence[str]
    moved: dict[str, DataFrame]
    new: dict[str, DataFrame]

    @classmethod
    def of(cls, station: Station, items: DataFrame) -> Made:
        """Call the function of a station. Raises InvalidInput for results that do not fit it."""
        assert station.frame is not None  # noqa: S101 - a Spark station has one
        by_target = frames_by_target(station, station.frame.function(items), station.targets)
        moved = {to: frame for to, frame in by_target.items() if ID in frame.columns}
        new = {to: frame for to, frame in by_target.items() if ID not in frame.columns}
        if "" in new:
            raise InvalidInput(
                f"station {station.station!r} is an end, so each row it returns is the result of an item: keep "
                f"the column {ID}, or name a station for new items in to="
            )
        for to in station.tables.keys() & new.keys():
            raise InvalidInput(
                f"a row that station {station.station!r} writes to table {to!r} ends an item: keep the column "
                f"{ID}, or send new items to a station that writes them"
            )
        return cls(station, items.columns, moved, new)

    def rows(self, level: int) -> DataFrame:
        """Return the rows with ids of items; there must be some."""
        from pyspark.sql import functions as f

        passed, target = f.lit(level).alias("level"), {to: f.lit(to).alias("to") for to in self.moved}
        parts = [
            frame.select(f.col(ID), passed, target[to], self.json(frame), self.error(frame))
            for to, frame in self.moved.items()
        ]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def json(self, frame: DataFrame) -> Column:
        """Return the payloads of rows."""
        return as_json(frame, but=(ERROR,) if self.has_errors(frame) else ()).alias("payload")

    def error(self, frame: DataFrame) -> Column:
        """Return why items have failed."""
        from pyspark.sql import functions as f

        return f.col(ERROR) if self.has_errors(frame) else f.lit(None).cast("string").alias(ERROR)

    def has_errors(self, frame: DataFrame) -> bool:
        """Return whether rows say in a column why their items have failed, and not in a field of the station's own."""
        kinds = dict(frame.dtypes)
        if ERROR not in kinds or ERROR in self.fields:
            return False
        if kinds[ERROR] not in ("string", "void"):
            raise InvalidInput(
                f"the column {ERROR} of station {self.station.station!r} is of type {kinds[ERROR]}; it is a text for "
                f"an item that has failed, and null for others: cast it, or rename it"
            )
        return True


def frames_by_target(
    station: Station, made: DataFrame | Mapping[str, DataFrame], targets: Sequence[str]
) -> dict[str, DataFrame]:
    """Return the results of a station's function by target; "" for an end. Raises InvalidInput."""
    if isinstance(made, Mapping):
        unknown = [to for to in made if to not in targets]
        if unknown:
            raise InvalidInput(
                f"station {station.station!r} returned rows for {unknown[0]!r}, which is not in its to= "
                f"({', '.join(targets) or 'empty'}); add it there"
            )
        return dict(made)
    if len(targets) > 1:
        raise InvalidInput(
            f"station {station.station!r} has several targets; return a dict such as "
            f"{{{targets[0]!r}: frame}}, with a DataFrame for each target that gets items"
        )
    return {targets[0] if targets else "": made}


def as_json(frame: DataFrame, but: Sequence[str] = ()) -> Column:
    """Return the columns of a row as JSON, without the id and these columns; with nulls, as on a worker."""
    from pyspark.sql import functions as f

    names = [f.col(f"`{name}`") for name in frame.columns if name not in (ID, *but)]
    return f.to_json(f.struct(*names), {"ignoreNullFields": "false"})
