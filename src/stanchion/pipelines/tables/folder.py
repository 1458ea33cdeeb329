"""A table in a folder as a target: outside of the store, so its rows are written by a station of its own."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.spark_errors import TableRefused
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput, MissingExtra, StoreUnavailable
from stanchion.jobs.outcome import Bury
from stanchion.pipelines.tables.rows import Fields
from stanchion.pipelines.tables.table import Table
from stanchion.schemas.kinds import Schema
from stanchion.schemas.misfits import Misfit

if TYPE_CHECKING:
    import pyarrow as pa

JOB, ITEM = "job_id", "item"
_WRITERS: Final = {
    "delta": ("stanchion.lake.appends", "DeltaAppends", "delta"),
    "parquet": ("stanchion.lake.parquet", "ParquetFolder", "chunks"),
}
"""By the scheme of an address: the module and class that write, and the extra that they need."""


class _Writer(Protocol):
    """Writes rows of jobs to a table, those of each job once."""

    def prepare(self) -> None:
        """Make the table if it is missing. Raises TableRefused if it can't take the rows."""

    def append(self, job: str, rows: pa.Table) -> None:
        """Add the rows of a job, unless they are there. Raises TableRefused."""

    def read(self, limit: int | None) -> pa.Table:
        """Return the rows. Raises TableRefused."""


class FolderTarget(Fields):
    """A table in a folder, for rows with the fields of a schema."""

    def __init__(self, table: Table, schema: Schema) -> None:
        super().__init__(table, schema)
        if any(field.name.casefold() == JOB for field in schema.fields):
            raise InvalidInput(
                f"the rows of table {table.address} have a column {JOB} with the job of the item, so the function "
                f"can't return a field of this name: rename it"
            )
        self._named = [one for one in (JOB, ITEM) if all(one != field.name.casefold() for field in schema.fields)]
        self._made: _Writer | None = None
        self._prepared = False

    def same_as(self, other: FolderTarget) -> bool:
        """Return whether another target is the same table with the same fields."""
        return (self.table.address, self.schema.fields) == (other.table.address, other.schema.fields)

    def prepare(self) -> None:
        """Make the table if it is missing. Raises InvalidInput if it does not fit, and MissingExtra."""
        if self._prepared:
            return
        try:
            self._writer().prepare()
        except TableRefused as error:
            raise InvalidInput(f"table {self.table.address} does not fit the results: {error.why}") from None
        self._prepared = True

    def refuse_misfit(self, codec: Codec, value: object) -> None:
        """Raise InvalidInput for a value that can't be a row."""
        if (misfit := self._check(json.loads(codec.plain(value, "payload")))) is not None:
            raise InvalidInput(self.told(misfit))

    def misfits(self, items: Chunk) -> list[tuple[int, Misfit]]:
        """Return why items can't be rows, by their places."""
        if self._structs(items) is not None:
            return []
        found = ((place, self._check(value)) for place, value in enumerate(items.values))
        return [(place, misfit) for place, misfit in found if misfit is not None]

    def append(self, job: str, item: object) -> None:
        """Add an item, or those of a chunk, as rows, unless those of the job are there.

        Raises Bury for items that can't be rows, and StoreUnavailable if the table can't be written now.
        """
        chunk = item if isinstance(item, Chunk) else Chunk.of([item])
        for _, misfit in self.misfits(chunk):
            raise Bury(self.told(misfit))
        self.prepare()
        try:
            self._writer().append(job, self._rows(job, chunk))
        except TableRefused as error:
            raise StoreUnavailable(f"table {self.table.address} can't be written now: {error.why}") from None

    def read(self, limit: int | None) -> pa.Table:
        """Return the rows of the table. Raises StoreUnavailable, InvalidInput and MissingExtra."""
        self.prepare()
        try:
            return self._writer().read(limit)
        except TableRefused as error:
            raise StoreUnavailable(f"table {self.table.address} can't be read now: {error.why}") from None

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_made": None, "_prepared": False}

    def _writer(self) -> _Writer:
        if self._made is None:
            scheme, folder = self.table.folder
            module, name, extra = _WRITERS[scheme]
            try:
                made: _Writer = getattr(import_module(module), name)(folder, self._columns())
            except ImportError:
                raise MissingExtra(extra, f"table {self.table.address}") from None
            self._made = made
        return self._made

    def _columns(self) -> pa.Schema:
        from stanchion.core.chunks.arrow import pa
        from stanchion.schemas.typed_columns import arrow_type

        kinds: dict[str, object] = {JOB: pa.string(), ITEM: pa.int64()}
        named = [pa.field(name, kinds[name], name != JOB) for name in self._named]
        fields = [pa.field(one.name, arrow_type(one.kind), one.nullable) for one in self.schema.fields]
        return pa.schema([*named, *fields])

    def _rows(self, job: str, items: Chunk) -> pa.Table:
        from stanchion.core.chunks.arrow import pa
        from stanchion.pipelines.tables.columns import column_of

        kinds: dict[str, object] = {JOB: pa.repeat(job, len(items)), ITEM: range(len(items))}
        structs = self._structs(items)
        if structs is None:
            values = [value if isinstance(value, dict) else {} for value in items.values]
            found = [column_of(one.kind, [value.get(one.name) for value in values]) for one in self.schema.fields]
        else:
            found = structs.flatten()
        return pa.table([*(pa.array(kinds[name]) for name in self._named), *found], schema=self._columns())

    def _structs(self, items: Chunk) -> pa.StructArray | None:
        """Return all items as rows if they have typed columns that fit; else None."""
        from stanchion.schemas.typed_columns import structs_of_columns

        table = items.columns()
        return None if table is None else structs_of_columns(self.schema.struct, table)
