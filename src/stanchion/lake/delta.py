"""A Delta table that batches are appended to, each once, by the table's application transactions.

A commit has an application and a version. Of two commits of one version that are based on the same state of the table
Delta refuses the second. It does not refuse a later one: so each commit looks first whether the table has it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from stanchion.core.spark_errors import TableRefused
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.lake.files import NewFile, sync

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, RemoveAction

ALL_BOUNDED = {"delta.dataSkippingNumIndexedCols": "-1"}
"""Settings of a table: files that are merged have bounds of all columns too, see stats.py."""

_TRIES = 5
_LOG = "_delta_log"


@dataclass(frozen=True)
class Once:
    """Identity of a batch: its application, and its growing version."""

    application: str
    version: int


@dataclass(frozen=True)
class DeltaTarget:
    """The table in a folder, for rows with this schema. `by`: the columns of its partitions, if this creates it.

    `merges`: columns that the table lacks are added to it; else `advice` says how to add them.
    """

    folder: Path
    schema: pa.Schema
    by: tuple[str, ...] = ()
    merges: bool = False
    advice: str = "the option mergeSchema=true adds new columns"

    def open(self) -> OpenTable:
        """Return the table as it is now; create it if there is none. Raises TableRefused, MissingExtra."""
        try:
            from deltalake import DeltaTable, Schema
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise MissingExtra("delta", "writing to Delta tables") from None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            delta = DeltaTable.create(
                str(self.folder), self.schema, mode="ignore", partition_by=list(self.by), configuration=ALL_BOUNDED
            )
            table = OpenTable(self.folder, delta)
            table.check(self, Schema.from_arrow(self.schema))
        except (DeltaError, OSError, ValueError) as error:
            raise TableRefused(str(self.folder), str(error)) from None
        return table


class OpenTable:
    """A table at the version at which it was opened."""

    def __init__(self, folder: Path, delta: DeltaTable) -> None:
        self._folder, self._delta = folder, delta

    def check(self, target: DeltaTarget, schema: Schema) -> None:
        """Raise TableRefused unless the table takes rows of this schema; add new columns if the target merges them."""
        known, there = {field.name: field for field in self._delta.schema().fields}, self._delta.metadata()
        if tuple(there.partition_columns) != target.by:
            raise TableRefused(
                str(self._folder),
                f"its partitions are by {','.join(there.partition_columns) or 'no column'}, as the option partitionBy "
                f"must say",
            )
        new = [field for field in schema.fields if field.name not in known]
        for field in schema.fields:
            if field.name in known and known[field.name].type != field.type:
                raise TableRefused(
                    str(self._folder),
                    f"its column {field.name} is of type {_name(known[field.name].type)}, not {_name(field.type)}",
                )
        if new and not target.merges:
            raise TableRefused(str(self._folder), f"it has no column {new[0].name}; {target.advice}")
        given = {field.name for field in schema.fields}
        missing = [name for name, field in known.items() if name not in given and not field.nullable]
        if missing:
            raise TableRefused(str(self._folder), f"its column {missing[0]}, which can't be null, is missing")
        if new:
            self._delta.alter.add_columns(new)

    def has(self, once: Once) -> bool:
        """Return whether the table has a batch."""
        return self.last(once.application) >= once.version

    def last(self, application: str) -> int:
        """Return the version of an application's last batch, -1 if the table has none."""
        last = self._delta.transaction_version(application)
        return -1 if last is None else last

    def named(self, column: str, texts: Collection[str]) -> set[str]:
        """Return those of these texts that rows have in a column. Reads the files whose bounds admit one."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        files, wanted = pa.table(self._delta.get_add_actions(flatten=True)), sorted(texts)
        bounds = [f"{end}.{column}" for end in ("min", "max")]
        if set(bounds) <= set(files.schema.names):
            least, most = (files.column(name) for name in bounds)
            within = pc.and_(pc.less_equal(least, wanted[-1]), pc.greater_equal(most, wanted[0]))
            files = files.filter(pc.fill_null(within, True))
        found: set[str] = set()
        for path in files.column("path").to_pylist():
            values = pq.read_table(self._folder / unquote(path), columns=[column], partitioning=None).column(column)
            found.update(values.filter(pc.is_in(values, pa.array(wanted, values.type))).to_pylist())
        return found

    def rows(self, columns: Sequence[str], limit: int | None) -> pa.Table:
        """Return these columns of the rows, at most `limit`. Raises TableRefused."""
        from deltalake.exceptions import DeltaError

        try:
            found = self._delta.to_pyarrow_dataset()
            return found.to_table(list(columns)) if limit is None else found.head(limit, list(columns))
        except (DeltaError, OSError, ValueError) as error:
            raise TableRefused(str(self._folder), str(error)) from None

    def append(self, files: Sequence[NewFile], once: Once) -> bool:
        """Add files in one step; False if the table has the batch already. Raises TableRefused."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        refused = ""
        for _ in range(_TRIES):
            if self.has(once):
                return False
            before = self._delta.version()
            try:
                self._add(files, once)
            except CommitFailedError as error:  # another writer was faster, perhaps with this batch
                refused = str(error)
                self._delta.update_incremental()
                continue
            except (DeltaError, OSError) as error:
                raise TableRefused(str(self._folder), str(error)) from None
            self._delta.update_incremental()
            self._sync(before)
            return True
        raise TableRefused(str(self._folder), refused)

    def _add(self, files: Sequence[NewFile], once: Once) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        now = int(time.time() * 1000)
        adds: list[AddAction | RemoveAction]
        adds = [AddAction(one.path, one.size, dict(one.partition), now, True, one.stats) for one in files]
        self._delta.create_write_transaction(
            adds,
            "append",
            self._delta.schema(),
            partition_by=self._delta.metadata().partition_columns,
            commit_properties=CommitProperties(app_transactions=[Transaction(once.application, once.version)]),
        )

    def _sync(self, before: int) -> None:
        """Sync the log from a version on to disk; a new table has only its first entry before."""
        log = self._folder / _LOG
        for version in range(before, self._delta.version() + 1):
            entry = log / f"{version:020}.json"
            if entry.exists():
                sync(entry)
        sync(log)
        sync(self._folder)


def checked_partitions(schema: pa.Schema, by: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns. Raises InvalidInput for unsuitable ones."""
    import pyarrow as pa

    for name in by:
        if name not in schema.names:
            raise InvalidInput(f"the option partitionBy names {name!r}; known columns: {', '.join(schema.names)}")
        kind = schema.field(name).type
        if not any(
            one(kind) for one in (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)
        ):
            raise InvalidInput(f"the column {name} can't divide a table: it is no text, whole number, date or boolean")
    if len(set(by)) == len(schema.names):
        raise InvalidInput("the option partitionBy names all columns; leave one for the files")
    return tuple(dict.fromkeys(by))


def _name(kind: object) -> str:
    return str(getattr(kind, "type", kind))
